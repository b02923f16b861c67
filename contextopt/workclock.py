"""A clock that stands still while a model or a tokenizer is loaded.

Loading is done once a process. On a plain clock, the request that happens to need it first is logged as slow.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter

_loading_seconds = ContextVar("loading_seconds", default=0.0)


def work_seconds() -> float:
    """Return the clock's time; only differences have a meaning, and only within one thread."""
    return perf_counter() - _loading_seconds.get()


@contextmanager
def loading() -> Iterator[None]:
    """Stop the clock, also while another thread loads the same."""
    started = work_seconds()
    try:
        yield
    finally:
        _loading_seconds.set(_loading_seconds.get() + work_seconds() - started)
