"""Runs jobs on the database at the same time, each in a thread with its own connection."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any

from django.db import connection

PATIENCE_SECONDS = 60


def at_once(*jobs: Callable[[], Any], seconds: float = 30) -> list[Any]:
    """Run the jobs at the same moment. Return their results, or raise the error of the first that failed."""
    barrier = threading.Barrier(len(jobs))

    def start(job: Callable[[], Any]) -> Any:
        barrier.wait(timeout=10)
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        futures = [pool.submit(_with_own_connection, start, job) for job in jobs]
        return [future.result(timeout=seconds) for future in futures]


def beside[T](job: Callable[[], T]) -> Future[T]:
    """Start a job beside the test. The future holds its result or its error."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(_with_own_connection, job)
    pool.shutdown(wait=False)
    return future


def wait_until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.01)


def somebody_waits() -> bool:
    """Tell whether a connection to the tests' database waits for a lock."""
    with connection.cursor() as cursor:
        # A transaction sees only the sessions that there were when it first looked.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            " AND datname = current_database())"
        )
        return bool(cursor.fetchone()[0])


@contextmanager
def before_statement(part: str, act: Callable[[int], object]) -> Iterator[None]:
    """Call `act` before each of this thread's statements that contain `part`, with the statement's number."""
    numbers = count(1)

    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if part in sql:
            act(next(numbers))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(wrapper):
        yield


def _with_own_connection[**P, T](job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return job(*args, **kwargs)
    finally:
        connection.close()


def in_own_loop[Result](coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in its own thread: in this one, the browser tests keep an event loop."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, coroutine).result()
