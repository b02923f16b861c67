"""Limits on processor time, against algorithms whose time grows with the square of their input."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

USUAL_SECONDS = 0.1
"""How long `_reference` takes on the machine for which limits are given."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail if the block takes more processor time. A machine slower than usual gets more."""
    start = time.process_time()
    yield
    spent = time.process_time() - start
    if spent >= seconds:
        start = time.process_time()
        _reference()
        slowness = max(1.0, (time.process_time() - start) / USUAL_SECONDS)
        assert spent < seconds * slowness, f"{spent:.1f} s on a machine {slowness:.1f} times slower"


def _reference() -> int:
    return sum(number * number % 7 for number in range(1_000_000))
