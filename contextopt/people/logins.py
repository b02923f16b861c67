"""Limits guessing: passwords by address and account, API keys by address. Only failures count.

Strangers must not be able to lock people out. At an address where someone has logged in lately, only their
own attempts there count, however many others try their account or share their address.

Hashing a password takes a fifth of a second of processor time. Each process hashes one at a time, and only a
few requests wait for their turn, because each holds a thread.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any
from unicodedata import normalize

from django.contrib.auth.hashers import PBKDF2PasswordHasher, ScryptPasswordHasher
from django.http import HttpRequest
from django.utils import timezone

from contextopt.errors import TooManyAttempts
from contextopt.people import rates
from contextopt.people.clients import client_address
from contextopt.people.models import Throttle
from contextopt.people.rates import Bucket, Busy, Limit

PAIR = Limit("account at address", 5, timedelta(seconds=30))
ADDRESS = Limit("address", 10, timedelta(seconds=6))
ACCOUNT = Limit("account", 30, timedelta(seconds=10))
WRONG_KEYS = Limit("wrong keys", 30, timedelta(seconds=2))
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
            rates.take(buckets, busy)


def note_log_in(request: HttpRequest, user: Any, **_: object) -> None:
    """Undo the count of a successful log-in, and remember its address as known."""
    buckets, _busy = _read(request, user.get_username())
    rates.give_back(buckets)
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
    rates.take([bucket], rates.read_busy([bucket.key]))


def _read(request: HttpRequest, name: str) -> tuple[list[Bucket], Busy]:
    """Return the buckets that a log-in counts against, and those that are busy."""
    account, address = _pair(request, name)
    known, pair = _known_key(account, address), PAIR.of(account, address)
    buckets = [ADDRESS.of(address), ACCOUNT.of(account), pair]
    busy = rates.read_busy([known, *(bucket.key for bucket in buckets)])
    return [pair] if known in busy else buckets, busy


def _pair(request: HttpRequest, name: str) -> tuple[str, str]:
    return normalize("NFKC", name).casefold(), client_address(request)


def _known_key(account: str, address: str) -> str:
    return rates.hash_parts("known", account, address)
