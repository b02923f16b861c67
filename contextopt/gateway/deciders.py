"""Processes that decide on contexts, so that the event loop, which forwards chunks, never waits for them.

A thread would share the interpreter with the loop. A process keeps its decisions in memory until it is told
to log them.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from importlib import import_module
from multiprocessing import get_context

import structlog
from django.db import OperationalError, close_old_connections

from contextopt.sql import DATABASE_UNREACHABLE

# The second works while the first waits for the database.
DECIDERS = 2

type Make = Callable[[], ProcessPoolExecutor]

log = structlog.get_logger(__name__)


class DeciderError(Exception):
    """The work failed in its process, which logged why."""


class Decider:
    """One process, which does one piece of work at a time. If it dies, the next work starts a new one.

    Starting takes a while and is done in a thread, so that an event loop can submit work without waiting.
    """

    def __init__(self, make: Make) -> None:
        self._make = make
        # Set once its process was started.
        self._pool: ProcessPoolExecutor | None = None
        self._starter = ThreadPoolExecutor(1, "gateway-starter")
        self._lock = threading.Lock()
        self.waiting = 0

    def submit[*Ts, R](self, work: Callable[[*Ts], R], *args: *Ts) -> Future[R]:
        """Queue the work. Its future may raise:

        OperationalError: the database does not answer.
        DeciderError: any other error of the work.
        BrokenProcessPool: the process died, or could not be started.
        """
        future = self._submit(work, args)
        if future is None:
            future = Future()
            self._starter.submit(self._start_for, future, work, args)
        with self._lock:
            self.waiting += 1
        future.add_done_callback(lambda _: self._end())
        return future

    def close(self) -> None:
        self._starter.shutdown(wait=False, cancel_futures=True)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _submit[*Ts, R](self, work: Callable[[*Ts], R], args: tuple[*Ts]) -> Future[R] | None:
        """Queue the work unless a process must be started for it."""
        if self._pool is not None:
            with suppress(BrokenProcessPool):
                return self._pool.submit(_run, work, args)
        return None

    def _start_for[*Ts, R](self, future: Future[R], work: Callable[[*Ts], R], args: tuple[*Ts]) -> None:
        """Start the process, unless earlier work has started it, and submit the work to it."""
        if not future.set_running_or_notify_cancel():
            return
        try:
            done = self._submit(work, args)
            if done is None:
                pool = self._make()
                done = pool.submit(_run, work, args)
                self._pool = pool
        # The process that forks others died, or the system has no room for one more process or thread.
        except (OSError, EOFError, RuntimeError) as error:
            future.set_exception(BrokenProcessPool(str(error)))
        else:
            done.add_done_callback(partial(_pass_on, future))

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
        make = partial(ProcessPoolExecutor, 1, context, _begin, (name,))
        self.all = tuple(Decider(make) for _ in range(DECIDERS))

    def least_busy(self) -> Decider:
        return min(self.all, key=lambda decider: decider.waiting)

    def run[*Ts, R](self, work: Callable[[*Ts], R], *args: *Ts) -> R:
        """Do the work, and repeat it once if its process dies. Doing it twice must do no harm.

        Raises:
            OperationalError, DeciderError, BrokenProcessPool: see `Decider.submit`.
        """
        decider = self.least_busy()
        try:
            return decider.submit(work, *args).result()
        except BrokenProcessPool:
            # This one starts a new process now. Another may be dying at the same moment.
            return decider.submit(work, *args).result()

    def close(self) -> None:
        for decider in self.all:
            decider.close()


def _pass_on[R](future: Future[R], done: Future[R]) -> None:
    try:
        future.set_result(done.result())
    except Exception as error:  # Any error of the work goes to its caller.
        future.set_exception(error)


def _begin(name: str) -> None:
    import_module(name).begin()


def _run[*Ts, R](work: Callable[[*Ts], R], args: tuple[*Ts]) -> R:
    """Do the work in its process. Raise only errors that the gateway can unpickle."""
    try:
        return work(*args)
    except DATABASE_UNREACHABLE as error:
        raise OperationalError(str(error)) from None
    except Exception as error:  # An error that the gateway cannot unpickle would break the pool.
        log.exception("gateway_decider_failed", work=work.__name__)
        raise DeciderError(type(error).__name__) from None
    finally:
        close_old_connections()
