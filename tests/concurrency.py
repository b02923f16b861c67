"""Several at work on the database at once, each in a thread with a connection of its own."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from django.db import connection


def at_once(*jobs: Callable[[], Any], seconds: float = 30) -> list[Any]:
    """Run the jobs at the same moment; return what they return, or raise what the first of them raises."""
    barrier = threading.Barrier(len(jobs))

    def start(job: Callable[[], Any]) -> Any:
        barrier.wait(timeout=10)
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        futures = [pool.submit(_with_own_connection, start, job) for job in jobs]
        return [future.result(timeout=seconds) for future in futures]


def beside[T](job: Callable[[], T]) -> Future[T]:
    """Begin a job beside the test; the future has what it returns or raises."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(_with_own_connection, job)
    pool.shutdown(wait=False)
    return future


def _with_own_connection[**P, T](job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return job(*args, **kwargs)
    finally:
        connection.close()
