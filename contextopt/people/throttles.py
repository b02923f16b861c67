"""Limits on attempts, kept in the database: one row for each busy address or account.

Each limit is a leaky bucket (generic cell rate algorithm), so its whole state is one time. A refusal reads a
row and writes nothing, and the wait is known to the second.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F
from django.utils import timezone
from django.utils.crypto import salted_hmac

from contextopt.errors import TooManyAttempts
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
