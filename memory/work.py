"""Long work in batches. Its process may be killed at any point, and any other process can continue it."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Protocol

from contextopt.jobs import run_after_commit
from contextopt.locks import Lock, only_here

# Items whose results are stored together. If the process dies, at most these are computed again.
BATCH = 10
# How long a page waits for short work.
AT_ONCE_SECONDS = 2.0
WAIT_SECONDS = 0.2


class Run(Protocol):
    """A row that stands for the work, as of its last refresh."""

    @property
    def pk(self) -> int: ...
    @property
    def is_running(self) -> bool: ...
    def refresh_from_db(self, *, fields: list[str] | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class Work[R: Run, Item]:
    """One kind of work: the Celery task that goes on with a run, its lock, and the steps.

    `next_batch` returns the next items, at most `BATCH`, `compute` stores their results, and `finish` ends a
    run that has no items left. `compute` may end a run early.
    """

    task: str
    lock: Lock
    next_batch: Callable[[R], list[Item]]
    compute: Callable[[R, list[Item]], None]
    finish: Callable[[R], None]

    def begin(self, run: R) -> None:
        """Compute the first items at once, which is enough for short work, and leave the rest to a worker."""
        if self.go_on(run, seconds=AT_ONCE_SECONDS):
            run_after_commit(self.task, run.pk)

    def complete(self, run: R, on_batch: Callable[[R], None] | None = None) -> None:
        """Compute all items, or wait for the process that is computing them."""
        while run.is_running:
            if not self.go_on(run, seconds=AT_ONCE_SECONDS, on_batch=on_batch):
                run.refresh_from_db()
                sleep(WAIT_SECONDS * run.is_running)

    def go_on(self, run: R, *, seconds: float, on_batch: Callable[[R], None] | None = None) -> bool:
        """Compute further items for this many seconds; return whether the caller should continue later.

        If another process has the run, return false at once.
        """
        with only_here(self.lock, run.pk) as is_ours:
            ends = monotonic() + seconds
            while is_ours and _is_running(run):
                if not (batch := self.next_batch(run)):
                    self.finish(run)
                    return False
                self.compute(run, batch)
                if on_batch is not None:
                    on_batch(run)
                if monotonic() > ends:
                    return True
            return False


def _is_running(run: Run) -> bool:
    run.refresh_from_db(fields=["state", "finished_at"])
    return run.is_running
