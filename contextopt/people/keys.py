"""Creates, changes, rotates and revokes API keys, with a log. Finds the key of a request and counts it."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from contextopt.errors import Conflict, FieldProblem, InvalidInput, TooManyRequests
from contextopt.people.audit import note_event
from contextopt.people.inputs import KeyIn, RotationIn
from contextopt.people.models import SPACE_SLUGS_SQL, ApiKey, Scope, Team, Way, hash_key
from contextopt.sql import fetch_one


@transaction.atomic
def create_key(*, team: Team, data: KeyIn, actor: str) -> tuple[ApiKey, str]:
    """Create a key and return it with its secret. Only a hash of the secret is stored.

    Raises:
        InvalidInput: the expiry is not in the future, there is no such space, a key that is limited to
            spaces would be an admin, or one for the gateway has no spaces or no expiry.
    """
    _check_future(data.expires_at)
    if data.scope == "gateway":
        missing = [name for name in ("spaces", "expires_at") if getattr(data, name) is None]
        if missing:
            about = "is required for a key with scope gateway"
            raise InvalidInput([FieldProblem(name, about) for name in missing])
    if data.spaces is not None and data.scope == "admin":
        raise InvalidInput.of("spaces", "cannot limit a key with scope admin, which could create others")
    key, secret = ApiKey.objects.create_with_secret(
        team=team,
        name=data.name,
        scope=data.scope,
        created_by=actor,
        expires_at=data.expires_at,
        space_ids=None if data.spaces is None else find_spaces(team, data.spaces),
        requests_per_minute=data.requests_per_minute,
    )
    note_event(team_id=team.pk, actor=actor, action="key.created", subject=key.name, after=_restrictions(key))
    return key, secret


@transaction.atomic
def rotate_key(*, key: ApiKey, data: RotationIn, actor: str) -> tuple[ApiKey, str]:
    """Create a key that may do the same, and return it with its secret. The old key expires after the
    overlap, or when it would have; both can be revoked. Until then they share a limit, and a write repeated
    with the other secret is not done twice.

    Raises:
        Conflict: the key is revoked or has expired.
        InvalidInput: the new expiry is not in the future.
    """
    old = ApiKey.objects.select_for_update(no_key=True).get(pk=key.pk)
    now = timezone.now()
    if old.revoked_at is not None or old.is_expired:
        raise Conflict(f"Key {old.pk} is revoked or has expired. Create a new one.")
    _check_future(data.expires_at)
    new, secret = ApiKey.objects.create_with_secret(
        team=old.team,
        name=old.name,
        scope=old.scope,
        created_by=actor,
        expires_at=data.expires_at or old.expires_at,
        space_ids=old.space_ids,
        requests_per_minute=old.requests_per_minute,
        first_key_id=old.first_id,
    )
    before = {"prefix": old.prefix, "expires_at": old.expires_at}
    ends = now + timedelta(hours=data.overlap_hours)
    old.expires_at = min(old.expires_at or ends, ends)
    old.save(update_fields=["expires_at"])
    after = {"prefix": new.prefix, "expires_at": new.expires_at, "old_expires_at": old.expires_at}
    note_event(
        team_id=old.team_id, actor=actor, action="key.rotated", subject=old.name, before=before, after=after
    )
    return new, secret


@transaction.atomic
def change_key(*, key: ApiKey, before: Mapping[str, object], actor: str) -> None:
    """Store a key's new name, expiry or limit. `before` holds the old values of the changed fields."""
    if not before:
        return
    key.save(update_fields=list(before))
    after = {name: getattr(key, name) for name in before}
    note_event(
        team_id=key.team_id, actor=actor, action="key.changed", subject=key.name, before=before, after=after
    )


@transaction.atomic
def revoke_key(*, key: ApiKey, actor: str) -> None:
    """Revoke the key. Revoking it again does nothing."""
    if ApiKey.objects.select_for_update(no_key=True).get(pk=key.pk).revoked_at is not None:
        return
    key.revoke()
    note_event(
        team_id=key.team_id,
        actor=actor,
        action="key.revoked",
        subject=key.name,
        before={"prefix": key.prefix},
    )


def _check_future(moment: datetime | None) -> None:
    if moment is not None and moment <= timezone.now():
        raise InvalidInput.of("expires_at", "must be in the future")


def find_spaces(team: Team, slugs: Iterable[str]) -> list[int]:
    """Return the IDs of the team's spaces. Raises: InvalidInput."""
    found = dict(team.spaces.filter(slug__in=set(slugs)).values_list("slug", "pk"))
    for slug in slugs:
        if slug not in found:
            raise InvalidInput.of("spaces", f"there is no space {slug!r}")
    return sorted(found.values())


def _restrictions(key: ApiKey) -> dict[str, object]:
    """Return the values of a new key for the log. Limits that it does not have are left out."""
    limits = {"spaces": key.space_slugs or None, "requests_per_minute": key.requests_per_minute}
    given = {name: value for name, value in limits.items() if value is not None}
    return {"scope": key.scope, "prefix": key.prefix, "expires_at": key.expires_at, **given}


KEY_MAX = 200
KEY_COLUMNS = [field.attname for field in ApiKey._meta.concrete_fields]
KEY_SQL = f"""
SELECT {", ".join(KEY_COLUMNS)}, {SPACE_SLUGS_SQL} FROM {ApiKey._meta.db_table}
 WHERE secret_hash = %s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > %s)
"""


def read_secret(headers: Mapping[str, str]) -> str:
    """Return the secret in `Authorization: Bearer SECRET`, else that in `X-API-Key`, or "" without one."""
    scheme, _, given = headers.get("Authorization", "").strip().partition(" ")
    bearer = given.strip() if scheme.lower() == "bearer" else ""
    return bearer or headers.get("X-API-Key", "").strip()


def find_key(secret: str, way: Way | None = Way.HTTP) -> ApiKey | None:
    """Return the usable key of this secret and note its use, by this way if it is one.

    A key of the gateway is of use only there.
    """
    if not secret or len(secret) > KEY_MAX:
        return None
    key = load_key(hash_key(secret))
    if key is None or not key.allows(Scope.READ):
        return None
    key.touch(way)
    return key


def load_key(secret_hash: str) -> ApiKey | None:
    """Return the key unless it is revoked or expired.

    Every request begins with this, so the statement is written out. Building it each time took longer than
    the database takes to answer.
    """
    row = fetch_one(KEY_SQL, [secret_hash, timezone.now()])
    if row is None:
        return None
    *values, slugs = row
    key = ApiKey.from_db(connection.alias, KEY_COLUMNS, values)
    key.space_slugs = slugs
    # Django's own cursors leave JSON as text.
    key.ways = json.loads(key.ways)
    return key


# The beginning of a user agent, in lower case. Hooks send the name of their tool. Connecting one is no way.
_AGENTS: Sequence[tuple[str, Way | None]] = (
    ("contextopt-connect", None),
    ("contextopt-client", Way.PYTHON),
    ("contextopt-hook/claude", Way.CLAUDE),
    ("contextopt-hook/codex", Way.CODEX),
    ("contextopt-hook/cursor", Way.CURSOR),
    ("claude-code", Way.CLAUDE),
    ("codex", Way.CODEX),
    ("cursor", Way.CURSOR),
)


def way_of(user_agent: str, default: Way = Way.HTTP) -> Way | None:
    """Return the way of a request; `default` for a user agent that is not one of ours. The command that sets
    a tool up has none: only the tool's own requests show that it is connected.
    """
    name = user_agent.lower()
    return next((way for start, way in _AGENTS if name.startswith(start)), default)


WINDOW_SECONDS = 60
SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Allowance:
    """The requests that a key may still send. After `reset` seconds it has its whole limit again."""

    limit: int
    remaining: int
    reset: int

    def headers(self) -> dict[str, str]:
        """Return the headers of the IETF draft, and those of its earlier versions, which clients know."""
        return {
            "RateLimit-Policy": f'"key";q={self.limit};w={WINDOW_SECONDS}',
            "RateLimit": f'"key";r={self.remaining};t={self.reset}',
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset),
        }


class Meter:
    """The buckets of all keys: each holds a minute's requests and refills steadily.

    A bucket is stored as the time at which it is full again, so keys that pause need no upkeep.
    """

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._full_at: dict[int, int] = {}
        self._lock = threading.Lock()

    def take(self, key_id: int, limit: int) -> Allowance:
        """Count a request.

        Raises:
            TooManyRequests: the bucket is empty. The request is not counted.
        """
        every = WINDOW_SECONDS * SECOND // limit
        with self._lock:
            now = self._clock()
            taken = max(self._full_at.get(key_id, now) - now, 0)
            wait = taken + every - limit * every
            if wait > 0:
                raise TooManyRequests(_seconds(wait), limit, _seconds(taken))
            taken += every
            self._full_at[key_id] = now + taken
        return Allowance(limit, limit - -(-taken // every), _seconds(taken))


def _seconds(nanoseconds: int) -> int:
    return -(-nanoseconds // SECOND)


_meter = Meter()


def count_request(key: ApiKey) -> Allowance | None:
    """Count a request of the key, and return what is left; None without a limit.

    Raises:
        TooManyRequests: the key has reached its limit.
    """
    limit = key.requests_per_minute or settings.KEY_REQUESTS_PER_MINUTE
    return _meter.take(key.first_id, limit) if limit else None
