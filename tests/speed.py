"""Limits on processor time, against algorithms whose time grows with the square of their input."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from django.conf import settings
from django.db import connection

USUAL_SECONDS = 0.1
"""How long `_reference` takes on the machine for which limits are given."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail if the block takes more processor time. A machine slower than usual gets more."""
    start = _spent()
    yield
    spent = _spent() - start
    if spent >= seconds:
        start = time.process_time()
        _reference()
        slowness = max(1.0, (time.process_time() - start) / USUAL_SECONDS)
        assert spent < seconds * slowness, f"{spent:.1f} s on a machine {slowness:.1f} times slower"


def _spent() -> float:
    """Return the processor time of this process and of its session on the embedded database."""
    seconds = time.process_time()
    server = connection.connection
    if server is not None and not server.closed and not settings.DATABASE_URL:
        session = psutil.Process(server.info.backend_pid).cpu_times()
        seconds += session.user + session.system
    return seconds


def _reference() -> int:
    return sum(number * number % 7 for number in range(1_000_000))
