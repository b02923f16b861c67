"""Keeps indexes of repositories in memory: loaded from the database once, then brought up to date."""

import gc
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import batched
from threading import RLock
from typing import NamedTuple
from uuid import UUID

from django.db.models import Case, F, TextField, Value, When
from pydantic_core import from_json, to_json

from contextopt.engine.code.filescores import Change, Ranker, Reading, RepositoryIndex, read_file
from contextopt.engine.code.graph.importgraph import build_graph
from contextopt.engine.code.graph.parsing import decode
from contextopt.engine.code.graph.values import PARSER_VERSION, CodeGraph
from contextopt.engine.code.tree import DrawnTree, draw_tree
from contextopt.engine.text.cleaning import flatten
from contextopt.errors import Conflict
from contextopt.repositories.checkouts import NO_FILE
from contextopt.repositories.models import CodeBlob, Repository, RepositoryFile, RepositoryHistory
from contextopt.repositories.storedfiles import PACKAGE_KINDS, load_parsed, reading_of, skipped_reading

# Attempts to read a repository whose contents are replaced in the meantime.
READ_TRIES = 4
# The index of ten thousand files takes about 300 MB.
KEPT_REPOSITORIES = 4
LOAD_ROWS = 2_000


class IndexedFile(NamedTuple):
    """The content of a file. `blob_id` is None if the file was skipped."""

    oid: str
    skipped: str
    blob_id: int | None


@dataclass(frozen=True, slots=True)
class LoadedIndex:
    """The index of a repository in one state, ready for ranking."""

    state: UUID
    files: Mapping[str, IndexedFile]
    index: RepositoryIndex
    ranker: Ranker


class ContentGone(Exception):
    """A content was replaced or deleted after the list of files was read."""


def read_unchanged[T](repository: Repository, read: Callable[[], T]) -> T:
    """Return the result of `read`, and read again if the repository was changed in the meantime.

    Raises:
        Conflict: it changes faster than it can be read.
        Repository.DoesNotExist: it was deleted.
    """
    for _ in range(READ_TRIES):
        try:
            return read()
        except ContentGone:
            repository.refresh_from_db()
    raise Conflict("The repository is being changed. Try again in a moment.")


_kept: OrderedDict[int, LoadedIndex] = OrderedDict()
# Building takes seconds. Requests that come in the meantime wait for it.
_lock = RLock()


def load_index(repository: Repository) -> LoadedIndex:
    """Return the index of a repository's current state. Unchanged files are not loaded again.

    Raises:
        Conflict, Repository.DoesNotExist: as `read_unchanged`.
    """
    with _lock:
        kept = _kept.get(repository.pk)
        if kept is None or kept.state != repository.state:
            kept = _kept[repository.pk] = read_unchanged(repository, lambda: _load(repository, kept))
        _kept.move_to_end(repository.pk)
        while len(_kept) > KEPT_REPOSITORIES:
            _kept.popitem(last=False)
        return kept


def _load(repository: Repository, before: LoadedIndex | None) -> LoadedIndex:
    rows = RepositoryFile.objects.of(repository).exclude(skipped__in=NO_FILE)
    listed = rows.values_list("path", "oid", "skipped", "blob_id")
    files = {path: IndexedFile(oid, skipped, blob) for path, oid, skipped, blob in listed}
    with paused_collector():
        known = before.files if before is not None else {}
        changed = _readings({path: file for path, file in files.items() if known.get(path) != file})
        if before is None:
            index = RepositoryIndex.build(changed)
        else:
            index = before.index.updated(changed, sorted(known.keys() - files.keys()))
        history = RepositoryHistory.objects.filter(repository=repository).first()
        ranker = index.ranker(load_changes(history.changes) if history is not None else ())
    return LoadedIndex(repository.state, files, index, ranker)


def _readings(files: Mapping[str, IndexedFile]) -> dict[str, Reading]:
    blobs = _blobs({path: file.blob_id for path, file in files.items() if file.blob_id is not None})
    return {
        path: skipped_reading(path, file.skipped) if file.blob_id is None else blobs[file.blob_id]
        for path, file in files.items()
    }


def _blobs(wanted: Mapping[str, int]) -> dict[int, Reading]:
    """Return the readings of contents by id. Parse again those read by another version of the parser."""
    paths = {blob: path for path, blob in wanted.items()}
    numbers = sorted(paths)
    loaded: dict[int, Reading] = {}
    for some in batched(numbers, LOAD_ROWS):
        rows = CodeBlob.objects.filter(pk__in=some, parser=PARSER_VERSION)
        read = rows.values_list("pk", "parsed", "definitions", "terms")
        loaded |= {pk: reading_of(*texts) for pk, *texts in read}
    outdated = [number for number in numbers if number not in loaded]
    for some in batched(outdated, LOAD_ROWS):
        unread = CodeBlob.objects.filter(pk__in=some).values_list("pk", "content")
        loaded |= {pk: read_file(paths[pk], bytes(text)) for pk, text in unread}
    if len(loaded) < len(numbers):
        raise ContentGone
    return loaded


def load_graph(repository: Repository) -> CodeGraph:
    """Return the graph of the stored files, from the index if it is in memory.

    Its files may lack their symbols.

    Raises:
        Conflict, Repository.DoesNotExist: as `read_unchanged`.
    """
    return read_unchanged(repository, lambda: _load_graph(repository))


def _load_graph(repository: Repository) -> CodeGraph:
    if repository.pk in _kept:
        return load_index(repository).index.graph
    rows = RepositoryFile.objects.of(repository).exclude(skipped__in=NO_FILE)
    if rows.filter(blob__isnull=False).exclude(blob__parser=PARSER_VERSION).exists():
        return load_index(repository).index.graph
    defined = Case(
        When(blob__kind__in=PACKAGE_KINDS, then=F("blob__definitions")),
        default=Value(""),
        output_field=TextField(),
    )
    listed = list(rows.values_list("path", "skipped", "blob__parsed", defined))
    if any(parsed is None and not skipped for _, skipped, parsed, _ in listed):
        raise ContentGone
    with paused_collector():
        return build_graph(
            {
                path: skipped_reading(path, skipped).parsed if skipped else load_parsed(parsed, symbols)
                for path, skipped, parsed, symbols in listed
            }
        )


@contextmanager
def paused_collector() -> Iterator[None]:
    """Keep the garbage collector from scanning many new objects that are all kept."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def dump_changes(changes: Iterable[Change]) -> str:
    return to_json([[change.date, change.message, change.paths] for change in changes]).decode()


def load_changes(text: str) -> list[Change]:
    """Return the changes that `dump_changes` wrote."""
    return [
        Change(datetime.fromisoformat(date), message, tuple(paths))
        for date, message, paths in from_json(text)
    ]


MANIFESTS = (
    "pyproject.toml", "setup.cfg", "setup.py", "requirements.txt", "package.json", "go.mod", "Cargo.toml",
    "pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts",
)  # fmt: skip
"""Names of files that declare packages and their dependencies."""
MANIFESTS_MAX = 10
MANIFEST_CHARS_MAX = 200_000


def outline_tree(repository: Repository, fits: Callable[[str], bool]) -> DrawnTree:
    """Return the repository's files as an indented list that fits."""
    files = RepositoryFile.objects.filter(repository=repository).exclude(skipped__in=NO_FILE)
    return draw_tree(files.values_list("path", flat=True), fits)


def read_manifests(repository: Repository) -> list[tuple[str, str]]:
    """Return path and text of the manifests that are nearest to the top, the best known first."""
    rows = RepositoryFile.objects.of(repository).filter(path__regex=_PATTERN, blob__isnull=False)
    paths = list(rows.values_list("path", flat=True))
    nearest = min((path.count("/") for path in paths), default=0)
    chosen = sorted((path for path in paths if path.count("/") == nearest), key=_rank)[:MANIFESTS_MAX]
    contents = dict(rows.filter(path__in=chosen).values_list("path", "blob__content"))
    return [(path, decode(bytes(contents[path]))[:MANIFEST_CHARS_MAX]) for path in chosen if path in contents]


def join_manifests(manifests: Sequence[tuple[str, str]]) -> str:
    """Return the manifests as one text; a comment names each if there are several."""
    if len(manifests) == 1:
        return manifests[0][1]
    return "\n".join(f"# {flatten(path)}\n{text}" for path, text in manifests)


def _rank(path: str) -> tuple[int, str]:
    return MANIFESTS.index(path.rpartition("/")[2]), path


_PATTERN = rf"(^|/)({'|'.join(name.replace('.', r'\.') for name in MANIFESTS)})$"
