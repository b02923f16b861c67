"""Contents of files: parsed here or in several processes, and stored once per team."""

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from itertools import batched
from typing import Any

from contextopt.children import end_with_parent
from contextopt.engine.code.graph.values import PARSER_VERSION
from contextopt.repositories.checkouts import NOT_READ, Entry
from contextopt.repositories.models import CodeBlob
from contextopt.repositories.storedfiles import StoredReading, kind_of, read_contents

type BlobKey = tuple[str, str]


def blob_ids(team_id: int, keys: Iterable[BlobKey]) -> dict[BlobKey, int]:
    """Return the ids of the contents that the current version of the parser has read."""
    wanted = set(keys)
    oids = sorted({oid for _, oid in wanted})
    found: dict[BlobKey, int] = {}
    for some in batched(oids, 5_000):
        rows = CodeBlob.objects.filter(team_id=team_id, parser=PARSER_VERSION, oid__in=some)
        found |= {(kind, oid): pk for kind, oid, pk in rows.values_list("kind", "oid", "id")}
    return {key: pk for key, pk in found.items() if key in wanted}


def blob_row(team_id: int, entry: Entry, content: bytes, reading: StoredReading) -> CodeBlob:
    return CodeBlob(
        team_id=team_id,
        kind=kind_of(entry.path),
        oid=entry.oid,
        parser=PARSER_VERSION,
        symbols=reading.symbols,
        content=content,
        parsed=reading.parsed,
        definitions=reading.definitions,
        terms=reading.terms,
    )


def save_blobs(rows: Sequence[CodeBlob]) -> None:
    CodeBlob.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["team", "kind", "oid"],
        update_fields=["parser", "symbols", "content", "parsed", "definitions", "terms"],
    )


def drop_orphans(blobs: Iterable[int]) -> None:
    """Delete the contents that no file uses any longer."""
    for some in batched(sorted(blobs), 5_000):
        CodeBlob.objects.filter(pk__in=some).filter(files=None).delete()


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
