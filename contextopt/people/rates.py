"""Limits the requests of each key per minute. A key and those it was rotated to count as one.

Each process counts what it serves, in memory: a count in the database would cost every request a commit. So
behind N web processes a key may reach up to N times its limit.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings

from contextopt.errors import TooManyRequests
from contextopt.people.models import ApiKey

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
