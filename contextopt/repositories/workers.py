"""Reads contents in this process or in several, a bounded number at a time."""

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from itertools import batched
from typing import Any

from contextopt.children import end_with_parent
from contextopt.repositories.checkouts import NOT_READ, Entry
from contextopt.repositories.storedfiles import StoredReading, read_contents

PARSE_FILES = 50


def parse_contents(
    contents: Iterable[tuple[Entry, bytes | None]], processes: int
) -> Iterator[tuple[Entry, bytes, StoredReading]]:
    """Read contents with up to this many processes. Only a few contents are in memory at a time."""
    with _executor(processes) as executor:
        waiting: deque[tuple[list[tuple[Entry, bytes]], Future[list[StoredReading]]]] = deque()
        for batch in batched(contents, PARSE_FILES):
            present = [(entry, content) for entry, content in batch if content is not None]
            gone = [entry for entry, content in batch if content is None]
            yield from ((entry, b"", StoredReading(NOT_READ["denied"])) for entry in gone)
            job = executor.submit(read_contents, [(entry.path, content) for entry, content in present])
            waiting.append((present, job))
            if len(waiting) > 3 * processes:
                yield from _joined(*waiting.popleft())
        while waiting:
            yield from _joined(*waiting.popleft())


def _joined(
    files: Sequence[tuple[Entry, bytes]], job: Future[list[StoredReading]]
) -> Iterator[tuple[Entry, bytes, StoredReading]]:
    for (entry, content), reading in zip(files, job.result(), strict=True):
        yield entry, content, reading


class _InlineExecutor(Executor):
    """An executor that runs each job at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def _executor(processes: int) -> Executor:
    if processes == 1:
        return _InlineExecutor()
    # A fork would copy the database pool's threads in the middle of their work.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(processes, mp_context=context, initializer=end_with_parent)
