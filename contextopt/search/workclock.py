"""A clock that stands still while a model or a tokenizer is loaded.

Each process loads them once. On a plain clock, the request that happens to load them would be logged as slow.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter

_loading_seconds = ContextVar("loading_seconds", default=0.0)


def work_seconds() -> float:
    """Return the clock's time. Only differences within one thread have a meaning."""
    return perf_counter() - _loading_seconds.get()


@contextmanager
def loading() -> Iterator[None]:
    """Stop the clock, even if another thread is loading the same thing."""
    started = work_seconds()
    try:
        yield
    finally:
        _loading_seconds.set(_loading_seconds.get() + work_seconds() - started)
