"""Decides who may use the gateway, and which space a prompt belongs to.

Valid keys are remembered for a few seconds, so most requests need no database. If the database cannot be
reached, remembered keys stay valid for ten minutes.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Literal

import structlog

from contextopt.assemblies.candidates import ConfiguredSpace, load_space
from contextopt.errors import NotFound, TooManyAttempts, TooManyRequests
from contextopt.gateway.models import GatewayPolicy, Reason
from contextopt.gateway.policies import read_policy
from contextopt.people.keys import KEY_MAX, count_request, load_key
from contextopt.people.logins import count_wrong_key_from
from contextopt.people.models import ApiKey, Scope, Way, hash_key
from contextopt.spaces.models import Space
from contextopt.sql import DATABASE_UNREACHABLE, in_thread

log = structlog.get_logger(__name__)

FRESH_SECONDS = 5.0
"""A revoked key works for at most this long, if the database answers."""
GRACE_SECONDS = 600.0
"""A remembered key works for this long without the database."""
PATIENCE_SECONDS = 0.25
REMEMBERED_MAX = 10_000
THREADS = 4
NONE: Literal[""] = ""
NO_KEY = "Send a Contextopt API key in the header X-Contextopt-Key."
WRONG_KEY = "X-Contextopt-Key is not a valid Contextopt API key."
SLUG_MAX = 64
UNKNOWN = "?"
"""Stands for slugs too long for any space. A key's latest unknown slug is remembered under it."""

type NoReason = Literal[""]
type RefusalKind = Literal["unauthenticated", "forbidden", "too_many", "unavailable"]


class Refused(Exception):
    """The request is refused and not forwarded. `can_retry` says whether the same request may pass later."""

    def __init__(
        self,
        kind: RefusalKind,
        status: int,
        message: str,
        retry_after: int | None = None,
        *,
        can_retry: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind, self.status, self.message, self.retry_after = kind, status, message, retry_after
        self.can_retry = can_retry


@dataclass(frozen=True, slots=True)
class Admission:
    """A valid key with the space of the prompt, or the reason why there is none."""

    key: ApiKey
    space: ConfiguredSpace | None
    policy: GatewayPolicy
    reason: Reason | NoReason = NONE

    @property
    def actor(self) -> str:
        return f"key:{self.key.name}"


@dataclass(slots=True)
class _Remembered:
    slug: str
    admission: Admission
    checked_at: float


class Gate:
    """Checks keys and finds spaces. It remembers valid keys by hash, never the keys."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], _Remembered] = OrderedDict()
        self._checks: dict[tuple[str, str], asyncio.Task[Admission | None]] = {}
        self._pool = ThreadPoolExecutor(THREADS, "gateway-keys")

    async def admit(
        self, secret: str, slug: str, address: Callable[[], str], *, is_in_path: bool = False
    ) -> Admission:
        """Return the admission of a request with this key, for the space that it names, if any.

        Raises:
            Refused: the key is missing, wrong, too weak or over its limit, cannot be checked, or stands in
                the path but may do more than that.
        """
        if not secret or (len(secret) > KEY_MAX and not is_in_path):
            raise Refused("unauthenticated", 401, NO_KEY)
        found = None
        if len(secret) <= KEY_MAX:
            found = await self._find(hash_key(secret), slug if len(slug) <= SLUG_MAX else UNKNOWN)
        if found is None:
            raise await self._wrong_key(address(), NO_KEY if is_in_path else WRONG_KEY)
        _check_use(found.key, is_in_path=is_in_path)
        return found

    async def _find(self, secret_hash: str, slug: str) -> Admission | None:
        """Return a remembered admission if it is fresh, else a checked one.

        If the check is slow or fails, a remembered admission stays valid during its grace period.
        """
        asked = (secret_hash, slug)
        known = self._remembered(secret_hash, slug)
        now = time.monotonic()
        if known is not None and now - known.checked_at < FRESH_SECONDS:
            return known.admission
        check = self._checks.get(asked)
        if check is None:
            check = self._checks[asked] = asyncio.create_task(self._check(asked))
            check.add_done_callback(partial(self._end_check, asked))
        has_grace = known is not None and now - known.checked_at < GRACE_SECONDS
        await asyncio.wait([check], timeout=PATIENCE_SECONDS if has_grace else None)
        if check.done() and check.exception() is None:
            return check.result()
        if known is not None and has_grace and not known.admission.key.is_expired:
            return known.admission
        message = "The database cannot be reached to check the key."
        raise Refused("unavailable", 503, message, 5, can_retry=True)

    def _remembered(self, secret_hash: str, slug: str) -> _Remembered | None:
        known = self._known.get((secret_hash, slug)) or self._known.get((secret_hash, UNKNOWN))
        return known if known is not None and known.slug == slug else None

    def _end_check(self, asked: tuple[str, str], check: asyncio.Task[Admission | None]) -> None:
        del self._checks[asked]
        if (error := check.exception()) is not None:
            log.warning("gateway_key_check_failed", error=type(error).__name__)

    async def _check(self, asked: tuple[str, str]) -> Admission | None:
        """Raises: OperationalError, InterfaceError: the database does not answer."""
        found = await in_thread(self._pool, load_admission, *asked)
        secret_hash, slug = asked
        unknown = secret_hash, UNKNOWN
        if (known := self._remembered(secret_hash, slug)) is not None:
            del self._known[asked if known is self._known.get(asked) else unknown]
        if found is not None:
            place = unknown if found.reason == Reason.UNKNOWN_SPACE else asked
            self._known[place] = _Remembered(slug, found, time.monotonic())
            self._known.move_to_end(place)
            while len(self._known) > REMEMBERED_MAX:
                self._known.popitem(last=False)
        return found

    async def _wrong_key(self, address: str, message: str) -> Refused:
        """Count a wrong key and return the refusal."""
        try:
            await in_thread(self._pool, count_wrong_key_from, address)
        except TooManyAttempts as error:
            # Its key will still be wrong after that time.
            return Refused("too_many", 429, str(error), error.seconds)
        except DATABASE_UNREACHABLE:
            log.warning("gateway_wrong_key_not_counted")
        return Refused("unauthenticated", 401, message)


def _check_use(key: ApiKey, *, is_in_path: bool) -> None:
    """Count the request. Raises: Refused."""
    if key.is_expired:
        raise Refused("unauthenticated", 401, "The Contextopt API key has expired.")
    if key.scope != Scope.GATEWAY and (is_in_path or not key.allows(Scope.WRITE)):
        needed = "gateway" if is_in_path else "gateway or write"
        message = f"This needs a key with scope {needed}. Yours has scope {key.scope}."
        raise Refused("forbidden", 403, message)
    try:
        count_request(key)
    except TooManyRequests as error:
        raise Refused("too_many", 429, str(error), error.seconds, can_retry=True) from error


def load_admission(secret_hash: str, slug: str) -> Admission | None:
    """Return the admission of a key's hash, or None if the key is not usable."""
    key = load_key(secret_hash)
    if key is None:
        return None
    key.touch(Way.GATEWAY)
    chosen, reason = (slug, NONE) if slug else _only_space(key)
    if chosen and key.is_limited and chosen not in key.space_slugs:
        chosen, reason = "", Reason.UNKNOWN_SPACE
    if not chosen:
        return Admission(key, None, GatewayPolicy(), reason)
    try:
        space = load_space(key.team_id, chosen)
    except NotFound:
        return Admission(key, None, GatewayPolicy(), Reason.UNKNOWN_SPACE)
    return Admission(key, space, read_policy(space))


def _only_space(key: ApiKey) -> tuple[str, Reason | NoReason]:
    """Return the one space that the key reaches, or the reason why there is not exactly one."""
    if key.is_limited:
        slugs = key.space_slugs
    else:
        slugs = list(Space.objects.filter(team=key.team_id).order_by("pk").values_list("slug", flat=True)[:2])
    if len(slugs) == 1:
        return slugs[0], NONE
    return "", Reason.UNNAMED_SPACE if slugs else Reason.NO_SPACE
