"""Limits guessing: passwords by address and account, keys and connect codes by address. Only failures count.

Strangers must not be able to lock people out. At an address where someone has logged in lately, only their
own attempts there count, however many others try their account or share their address.

Hashing a password takes a fifth of a second of processor time. Each process hashes one at a time, and only a
few requests wait for their turn, because each holds a thread.
"""

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from unicodedata import normalize

from django.contrib.auth.hashers import PBKDF2PasswordHasher, ScryptPasswordHasher
from django.db.models import F
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac

from contextopt.errors import TooManyAttempts
from contextopt.people.addresses import client_address
from contextopt.people.models import Throttle
from contextopt.sql import execute, fetch_all

type Busy = dict[str, datetime]

# Plain SQL, because a refusal should be cheap: building the query took longer than running it.
BUSY_SQL = "SELECT key, free_at FROM contextopt_throttle WHERE key = ANY(%s) AND free_at > %s"
# Two attempts at the same moment are both counted, or one of them is refused.
TAKE_SQL = """
INSERT INTO contextopt_throttle AS held (key, free_at) VALUES (%(key)s, %(now)s + %(every)s)
    ON CONFLICT (key) DO UPDATE SET free_at = greatest(held.free_at, %(now)s) + %(every)s
 WHERE held.free_at + %(every)s <= %(now)s + %(most)s
"""


@dataclass(frozen=True, slots=True)
class Limit:
    """Allows `burst` attempts at once, then one more every `every`."""

    name: str
    burst: int
    every: timedelta

    @property
    def most(self) -> timedelta:
        return self.burst * self.every

    def of(self, *parts: str) -> "Bucket":
        """Return the limit's bucket for an address, an account, or both."""
        return Bucket(self, hash_parts(self.name, *parts))


@dataclass(frozen=True, slots=True)
class Bucket:
    limit: Limit
    key: str

    def wait(self, free_at: datetime, now: datetime) -> timedelta:
        return free_at + self.limit.every - self.limit.most - now


PAIR = Limit("account at address", 5, timedelta(seconds=30))
ADDRESS = Limit("address", 10, timedelta(seconds=6))
ACCOUNT = Limit("account", 30, timedelta(seconds=10))
WRONG_KEYS = Limit("wrong keys", 30, timedelta(seconds=2))
WRONG_CODES = Limit("wrong codes", 5, timedelta(minutes=15))
KNOWN_FOR = timedelta(days=30)
# Those who hash or wait for it. The last places are for people at an address that they have logged in from.
PLACES = 4
PLACES_WITH_KNOWN = 6
BUSY_SECONDS = 2

_is_known = ContextVar("is_known", default=False)


class HashingRoom:
    """Lets one password be hashed at a time, and few requests wait for it."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._door = threading.Lock()
        self._inside = 0

    def check(self) -> None:
        """Raises: TooManyAttempts: the room is full."""
        if self._inside >= (PLACES_WITH_KNOWN if _is_known.get() else PLACES):
            raise TooManyAttempts(BUSY_SECONDS, "Many people are logging in at this moment.")

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Wait for a turn to hash. Raises: TooManyAttempts: the room is full."""
        with self._door:
            self.check()
            self._inside += 1
        try:
            with self._turn:
                yield
        finally:
            with self._door:
                self._inside -= 1


hashing_room = HashingRoom()


class PasswordHasher(ScryptPasswordHasher):
    """Django's hasher that takes a third of the default's time, one password at a time."""

    def encode(
        self, password: str, salt: str, n: int | None = None, r: int | None = None, p: int | None = None
    ) -> str:
        """Raises: TooManyAttempts: too many others wait."""
        with hashing_room.enter():
            return super().encode(password, salt, n, r, p)


class EarlierPasswordHasher(PBKDF2PasswordHasher):
    """Reads the hashes of earlier versions, one at a time. A log-in replaces them."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        """Raises: TooManyAttempts: too many others wait."""
        with hashing_room.enter():
            return super().encode(password, salt, iterations)


class LogInGate:
    """The first authentication backend: it accepts nobody, and refuses before the next backend hashes.

    As a backend it covers every page that authenticates. The shell and the test client's log-in send no
    request and are not limited.
    """

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,  # noqa: ARG002 Django's signature
    ) -> None:
        """Raises: TooManyAttempts."""
        if request is not None and username:
            buckets, busy = _read(request, username)
            _is_known.set(_known_key(*_pair(request, username)) in busy)
            # An attempt that is not made is not counted.
            hashing_room.check()
            take(buckets, busy)


def note_log_in(request: HttpRequest, user: Any, **_: object) -> None:
    """Undo the count of a successful log-in, and remember its address as known."""
    buckets, _busy = _read(request, user.get_username())
    give_back(buckets)
    known = _known_key(*_pair(request, user.get_username()))
    Throttle.objects.update_or_create(pk=known, defaults={"free_at": timezone.now() + KNOWN_FOR})


def count_wrong_key(request: HttpRequest) -> None:
    """Count a request whose key was wrong; a request without a key is not counted.

    This runs after the key check, so a valid key never waits for its neighbours' wrong ones. Hashing a key is
    fast, so refusing earlier would save nothing.

    Raises:
        TooManyAttempts: the address has sent too many wrong keys.
    """
    if "Authorization" in request.headers or "X-API-Key" in request.headers:
        count_wrong_key_from(client_address(request))


def count_wrong_key_from(address: str) -> None:
    """Count a wrong key from this address. Raises: TooManyAttempts."""
    bucket = WRONG_KEYS.of(address)
    take([bucket], read_busy([bucket.key]))


@contextmanager
def count_wrong_code(address: str) -> Iterator[None]:
    """Count an attempt with a connect code from this address, unless the block ends without an error.

    It is counted before the code is checked, so that attempts at the same moment are counted too.

    Raises:
        TooManyAttempts: the address has tried too often. The block does not run.
    """
    bucket = WRONG_CODES.of(address)
    take([bucket], read_busy([bucket.key]))
    yield
    give_back([bucket])


def _read(request: HttpRequest, name: str) -> tuple[list[Bucket], Busy]:
    """Return the buckets that a log-in counts against, and those that are busy."""
    account, address = _pair(request, name)
    known, pair = _known_key(account, address), PAIR.of(account, address)
    buckets = [ADDRESS.of(address), ACCOUNT.of(account), pair]
    busy = read_busy([known, *(bucket.key for bucket in buckets)])
    return [pair] if known in busy else buckets, busy


def _pair(request: HttpRequest, name: str) -> tuple[str, str]:
    return normalize("NFKC", name).casefold(), client_address(request)


def _known_key(account: str, address: str) -> str:
    return hash_parts("known", account, address)


def read_busy(keys: Sequence[str]) -> Busy:
    """Return the keys whose `free_at` is still ahead, each with its `free_at`."""
    return dict(fetch_all(BUSY_SQL, [list(keys), timezone.now()]))


def take(buckets: Sequence[Bucket], busy: Busy) -> None:
    """Count an attempt against every bucket. `busy` comes from a `read_busy` just before.

    Raises:
        TooManyAttempts: one of them has no room.
    """
    now = timezone.now()
    waits = [bucket.wait(busy[bucket.key], now) for bucket in buckets if bucket.key in busy]
    _refuse_for(max(waits, default=timedelta()))
    for bucket in buckets:
        if not _take_one(bucket, now):
            _refuse_for(bucket.limit.every)


def give_back(buckets: Sequence[Bucket]) -> None:
    """Undo `take`, because the attempt succeeded."""
    for bucket in buckets:
        Throttle.objects.filter(pk=bucket.key).update(free_at=F("free_at") - bucket.limit.every)


def sweep_throttles() -> None:
    Throttle.objects.filter(free_at__lt=timezone.now()).delete()


def hash_parts(*parts: str) -> str:
    return salted_hmac("contextopt.throttles", "\0".join(parts), algorithm="sha256").hexdigest()


def _take_one(bucket: Bucket, now: datetime) -> bool:
    limit = bucket.limit
    values: dict[str, Any] = {"key": bucket.key, "now": now, "every": limit.every, "most": limit.most}
    return bool(execute(TAKE_SQL, values))


def _refuse_for(wait: timedelta) -> None:
    if wait > timedelta():
        raise TooManyAttempts(math.ceil(wait.total_seconds()))
