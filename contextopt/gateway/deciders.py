"""Processes that decide on contexts, so that the loop which passes chunks on never waits for Python code.

A thread would share the interpreter with the loop. A process keeps its decisions in memory until it is told
to log them.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from importlib import import_module
from multiprocessing import get_context

import structlog
from django.db import OperationalError, close_old_connections

from contextopt.sql import DATABASE_UNREACHABLE

# The second works while the first waits for the database.
DECIDERS = 2

type Start = Callable[[], ProcessPoolExecutor]

log = structlog.get_logger(__name__)


class DeciderError(Exception):
    """The work failed in its process, which logged why."""


class Decider:
    """One process, which does one thing after another. After its death the next work starts a new one."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._pool = start()
        self._lock = threading.Lock()
        self.waiting = 0

    def submit[*Ts, R](self, work: Callable[[*Ts], R], *args: *Ts) -> Future[R]:
        """Queue the work. Its future may raise:

        OperationalError: the database does not answer.
        DeciderError: any other error of the work.
        BrokenProcessPool: the process died.
        """
        with self._lock:
            try:
                future = self._pool.submit(_run, work, args)
            except BrokenProcessPool:
                self._pool = self._start()
                future = self._pool.submit(_run, work, args)
            self.waiting += 1
        future.add_done_callback(lambda _: self._end())
        return future

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _end(self) -> None:
        with self._lock:
            self.waiting -= 1


class Deciders:
    """All such processes of one gateway.

    They are forked from one process that has loaded the module `name`, so that they start faster and share
    memory. The module's `begin` runs in each.
    """

    def __init__(self, name: str) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload([name])
        start = partial(ProcessPoolExecutor, 1, context, _begin, (name,))
        self.all = tuple(Decider(start) for _ in range(DECIDERS))

    def freest(self) -> Decider:
        return min(self.all, key=lambda decider: decider.waiting)

    def run[*Ts, R](self, work: Callable[[*Ts], R], *args: *Ts) -> R:
        """Do the work, and once more if its process dies. It must not matter whether it was done before.

        Raises:
            OperationalError, DeciderError, BrokenProcessPool: see `Decider.submit`.
        """
        decider = self.freest()
        try:
            return decider.submit(work, *args).result()
        except BrokenProcessPool:
            # This one starts a new process now. Another may be dying at the same moment.
            return decider.submit(work, *args).result()

    def close(self) -> None:
        for decider in self.all:
            decider.close()


def _begin(name: str) -> None:
    import_module(name).begin()


def _run[*Ts, R](work: Callable[[*Ts], R], args: tuple[*Ts]) -> R:
    """Do the work in its process. Only errors that any process can read leave it."""
    try:
        return work(*args)
    except DATABASE_UNREACHABLE as error:
        raise OperationalError(str(error)) from None
    except Exception as error:  # Whatever the work raises; unread by the gateway, it would break the pool.
        log.exception("gateway_decider_failed", work=work.__name__)
        raise DeciderError(type(error).__name__) from None
    finally:
        close_old_connections()
