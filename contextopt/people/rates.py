"""Limits the requests of each key per minute, and the attempts of busy addresses and accounts."""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import F
from django.utils import timezone
from django.utils.crypto import salted_hmac

from contextopt.errors import TooManyAttempts, TooManyRequests
from contextopt.people.models import ApiKey, Throttle
from contextopt.sql import execute, fetch_all

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
        limit = bucket.limit
        values: dict[str, Any] = {"key": bucket.key, "now": now, "every": limit.every, "most": limit.most}
        if not execute(TAKE_SQL, values):
            _refuse_for(limit.every)


def give_back(buckets: Sequence[Bucket]) -> None:
    """Undo `take`, because the attempt succeeded."""
    for bucket in buckets:
        Throttle.objects.filter(pk=bucket.key).update(free_at=F("free_at") - bucket.limit.every)


def sweep_throttles() -> None:
    Throttle.objects.filter(free_at__lt=timezone.now()).delete()


def hash_parts(*parts: str) -> str:
    return salted_hmac("contextopt.throttles", "\0".join(parts), algorithm="sha256").hexdigest()


def _refuse_for(wait: timedelta) -> None:
    if wait > timedelta():
        raise TooManyAttempts(math.ceil(wait.total_seconds()))
