"""Reads repositories' files into the database, and parses only those that are new or changed.

All writers of a team's repositories take turns, so that no content is dropped while another repository starts
to use it.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import batched
from operator import attrgetter
from time import perf_counter
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from contextopt.engine.code.filescores import Change
from contextopt.engine.code.graph.importgraph import find_circles
from contextopt.engine.code.graph.values import PARSER_VERSION, CodeGraph
from contextopt.errors import Conflict, InvalidInput
from contextopt.locks import Lock, hold_team, wait_turn
from contextopt.people.audit import SYSTEM, note_event
from contextopt.people.models import Team
from contextopt.repositories.blobs import (
    BlobKey,
    blob_ids,
    blob_row,
    drop_orphans,
    parse_contents,
    save_blobs,
)
from contextopt.repositories.checkouts import HISTORY_COMMITS, Checkout, Entry, Snapshot, name_of
from contextopt.repositories.graphs import dump_changes, load_changes, load_graph
from contextopt.repositories.inputs import REPOSITORY_FILES_MAX
from contextopt.repositories.models import CodeBlob, Repository, RepositoryFile, RepositoryHistory
from contextopt.repositories.storedfiles import blob_id, kind_of

# Reading fewer files is faster than starting other processes.
PARALLEL_FROM = 300
PROCESSES_MAX = 4
WRITE_ROWS = 500
UNRESOLVED_LISTED = 1_000
CIRCLES_LISTED = 100

type Read = Callable[[Iterable[Entry]], Iterator[tuple[Entry, bytes | None]]]
type Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The result of an indexing. `parsed` in its JSON counts the contents not seen before."""

    repository: Repository
    graph: CodeGraph
    skipped: Sequence[tuple[str, str]]
    changed: int
    removed: int

    def to_json(self) -> dict[str, Any]:
        unresolved = self.graph.unresolved[:UNRESOLVED_LISTED]
        return {
            "name": self.repository.name,
            "revision": self.repository.revision,
            "files": self.repository.files,
            "symbols": self.repository.symbols,
            "imports": self.repository.imports,
            "unresolved": self.repository.unresolved,
            "unresolved_imports": [
                {"path": item.path, "line": item.line, "target": item.target} for item in unresolved
            ],
            "circles": [list(group) for group in find_circles(self.graph.imports)[:CIRCLES_LISTED]],
            "skipped": [{"path": path, "reason": reason} for path, reason in self.skipped],
            "changed": self.changed,
            "removed": self.removed,
            "parsed": self.repository.parsed,
            "seconds": round(self.repository.seconds, 3),
        }


class _Stored(NamedTuple):
    """A file as stored in the database."""

    oid: str
    size: int
    skipped: str
    blob_id: int | None


def index_checkout(
    *,
    team: Team,
    checkout: Checkout,
    rev: str | None = None,
    actor: str,
    source: str = "",
    on_progress: Progress = lambda _: None,
) -> IndexReport:
    """Bring a repository up to a revision, creating it if it is missing; see `Snapshot`.

    A repository is known by its source: the checkout's folder, unless another one is given.

    Raises:
        InvalidInput: there is no such revision.
        UnusableSource: git failed.
    """
    started = perf_counter()
    snapshot = checkout.snapshot(rev)
    repository = ensure_repository(team=team, checkout=checkout, source=source, actor=actor)
    changes = _changes_up_to(checkout, snapshot, repository)
    writing = _Writing(repository, dict(snapshot.entries), checkout.read, on_progress)
    # Prepare before taking the turn: it may take minutes, and parsed contents survive an interruption.
    writing.prepare()
    with team_turn(team.pk):
        repository.refresh_from_db()
        writing.write()
        if changes is not None:
            # Files are ranked by the changes, so the repository is in a new state.
            repository.state = uuid4()
            RepositoryHistory.objects.update_or_create(
                repository=repository,
                defaults={
                    "revision": snapshot.revision,
                    "commits": len(changes),
                    "changes": dump_changes(changes),
                },
            )
        repository.revision, repository.revision_at = snapshot.revision, snapshot.moment
        return writing.finish(started)


@transaction.atomic
def create_posted(*, team: Team, name: str, files: Mapping[str, str], actor: str) -> IndexReport:
    """Create a repository from posted files.

    Raises:
        Conflict: the team has one with that name.
    """
    started = perf_counter()
    with team_turn(team.pk):
        if Repository.objects.filter(team=team, name=name).exists():
            raise Conflict(f"There is already a repository {name!r}.")
        repository = Repository.objects.create(team=team, name=name, created_by=actor)
        return _write_posted(repository, files, set(), started)


@transaction.atomic
def update_posted(*, repository: Repository, files: Mapping[str, str], deleted: Iterable[str]) -> IndexReport:
    """Replace, add and remove files of a posted repository. Removing a missing file does nothing.

    Raises:
        Conflict: the repository is read from a folder, an address or an archive.
        InvalidInput: it would have too many files.
    """
    started = perf_counter()
    if not repository.is_posted:
        raise Conflict(f"The files come from the repository's {repository.origin}. Index it again there.")
    with team_turn(repository.team_id):
        repository.refresh_from_db()
        return _write_posted(repository, files, set(deleted), started)


def delete_repository(*, repository: Repository, actor: str = SYSTEM) -> None:
    """Delete a repository, and contents that no other repository has."""
    with team_turn(repository.team_id):
        Repository.objects.filter(pk=repository.pk).delete()
        # This includes contents left by an interrupted indexing.
        CodeBlob.objects.filter(team=repository.team_id, files=None).delete()
        note_event(
            team_id=repository.team_id, actor=actor, action="repository.deleted", subject=repository.name
        )


def _write_posted(
    repository: Repository, files: Mapping[str, str], deleted: set[str], started: float
) -> IndexReport:
    contents = {path: text.encode() for path, text in files.items()}
    entries = {path: Entry(path, blob_id(content), len(content)) for path, content in contents.items()}
    known = {
        path: Entry(path, item.oid, item.size, item.skipped)
        for path, item in stored_files(repository).items()
        if path not in deleted
    }

    def read(wanted: Iterable[Entry]) -> Iterator[tuple[Entry, bytes | None]]:
        return ((entry, contents.get(entry.path)) for entry in wanted)

    if len(known | entries) > REPOSITORY_FILES_MAX:
        raise InvalidInput.of("files", f"a repository has at most {REPOSITORY_FILES_MAX:,} posted files")
    writing = _Writing(repository, known | entries, read, processes=1)
    writing.write()
    return writing.finish(started)


def stored_files(repository: Repository) -> dict[str, _Stored]:
    rows = RepositoryFile.objects.filter(repository=repository)
    listed = rows.values_list("path", "oid", "size", "skipped", "blob_id", "blob__parser")
    # Files read by another version of the parser count as changed.
    return {
        path: _Stored(oid if parser in (None, PARSER_VERSION) else "", size, skipped, blob)
        for path, oid, size, skipped, blob, parser in listed
    }


@contextmanager
def team_turn(team_id: int) -> Iterator[None]:
    """Open a transaction in which nobody else writes the team's repositories.

    Raises:
        NotFound: the team was deleted in the meantime.
    """
    with transaction.atomic():
        hold_team(team_id)
        wait_turn(Lock.REPOSITORIES, team_id)
        yield


def ensure_repository(*, team: Team, checkout: Checkout, source: str, actor: str) -> Repository:
    """Return the team's repository of a source, creating it with a free name if it is missing."""
    source = source or str(checkout.folder)
    with team_turn(team.pk):
        found = Repository.objects.filter(team=team, source=source).first()
        if found is not None:
            return found
        base = name_of(source, checkout.origin())
        taken = set(
            Repository.objects.filter(team=team, name__startswith=base).values_list("name", flat=True)
        )
        numbers = (f"{base}-{number}" for number in range(2, len(taken) + 3))
        name = next(name for name in (base, *numbers) if name not in taken)
        return Repository.objects.create(team=team, name=name, source=source, created_by=actor)


@dataclass(slots=True)
class _Writing:
    """One change of a repository's files, from the stored entries to the wanted ones."""

    repository: Repository
    entries: dict[str, Entry]
    read: Read
    on_progress: Progress = lambda _: None
    processes: int = PROCESSES_MAX
    parsed: int = 0
    stored: dict[str, _Stored] = field(default_factory=dict)
    stored_state: UUID | None = None
    changed: dict[str, Entry] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)

    def prepare(self) -> None:
        """Parse and store new contents, without changing the repository."""
        if self.stored_state != self.repository.state:
            self.stored, self.stored_state = stored_files(self.repository), self.repository.state
            self.changed = {
                path: entry
                for path, entry in self.entries.items()
                if (known := self.stored.get(path)) is None or not _is_same(entry, known)
            }
            self.removed = sorted(self.stored.keys() - self.entries.keys())
        self._write_blobs()

    def write(self) -> None:
        # Prepared contents may have been dropped since. During the turn, none can be.
        self.prepare()
        before = {self.stored[path].blob_id for path in (*self.changed, *self.removed) if path in self.stored}
        self._write_files()
        drop_orphans({blob for blob in before if blob is not None})

    def _key(self, entry: Entry) -> BlobKey:
        return kind_of(entry.path), entry.oid

    def _write_blobs(self) -> None:
        """Parse and store the contents that the team does not have yet."""
        wanted = {self._key(entry): entry for entry in self.changed.values() if not entry.skipped}
        known = blob_ids(self.repository.team_id, wanted)
        missing = [entry for key, entry in wanted.items() if key not in known]
        reasons: dict[BlobKey, str] = {}
        rows: list[CodeBlob] = []
        processes = min(self.processes, os.cpu_count() or 1) if len(missing) >= PARALLEL_FROM else 1
        for entry, content, reading in parse_contents(self.read(missing), processes):
            if reading.skipped:
                reasons[self._key(entry)] = reading.skipped
                continue
            rows.append(blob_row(self.repository.team_id, entry, content, reading))
            self.parsed += 1
            if len(rows) >= WRITE_ROWS:
                save_blobs(rows)
                rows.clear()
                self.on_progress(f"{self.parsed:,} of {len(missing):,} files parsed")
        save_blobs(rows)
        for path, entry in self.changed.items():
            if not entry.skipped and (reason := reasons.get(self._key(entry))):
                # Store it with the entries too, so that the file is not read a second time.
                self.changed[path] = self.entries[path] = Entry(path, entry.oid, entry.size, reason)

    def _write_files(self) -> None:
        wanted = {self._key(entry): entry for entry in self.changed.values() if not entry.skipped}
        blobs = blob_ids(self.repository.team_id, wanted)
        rows = [
            RepositoryFile(
                repository=self.repository,
                path=path,
                oid=entry.oid,
                size=entry.size,
                skipped=entry.skipped,
                blob_id=None if entry.skipped else blobs[self._key(entry)],
            )
            for path, entry in self.changed.items()
        ]
        RepositoryFile.objects.bulk_create(
            rows,
            batch_size=2_000,
            update_conflicts=True,
            unique_fields=["repository", "path"],
            update_fields=["oid", "size", "skipped", "blob"],
        )
        for gone in batched(self.removed, 5_000):
            RepositoryFile.objects.filter(repository=self.repository, path__in=gone).delete()

    def finish(self, started: float) -> IndexReport:
        """Update the repository's counts and return the report."""
        if self.changed or self.removed or self.parsed:
            self.repository.state = uuid4()
        graph = load_graph(self.repository)
        repository = self.repository
        skipped = sorted(
            RepositoryFile.objects.filter(repository=repository)
            .exclude(skipped="")
            .values_list("path", "skipped")
        )
        broken = [(item.path, f"{item.reason}, line {item.line}") for item in graph.skipped if item.line]
        total = RepositoryFile.objects.filter(repository=repository).aggregate(total=Sum("blob__symbols"))
        repository.files = len(graph.files) - sum(bool(file.skipped) for file in graph.files.values())
        repository.symbols = total["total"] or 0
        repository.imports = sum(map(len, graph.imports.values()))
        repository.unresolved = len(graph.unresolved)
        repository.skipped = len(skipped)
        repository.parsed = self.parsed
        repository.indexed_at = timezone.now()
        repository.seconds = perf_counter() - started
        repository.save()
        return IndexReport(
            repository, graph, sorted([*skipped, *broken]), len(self.changed), len(self.removed)
        )


def _is_same(entry: Entry, known: _Stored) -> bool:
    # A file whose content was found unreadable is not read again.
    return (
        known.oid == entry.oid
        and (known.skipped == entry.skipped or not entry.skipped)
        and (bool(entry.oid) or (known.size, known.skipped) == (entry.size, entry.skipped))
    )


def _changes_up_to(checkout: Checkout, snapshot: Snapshot, repository: Repository) -> list[Change] | None:
    """Return the newest changes up to a revision, or None if they are stored already.

    A shallow clone has only the newest ones, so older ones that are stored stay, and a deeper one adds some.
    """
    stored = RepositoryHistory.objects.filter(repository=repository).first()
    if not snapshot.revision:
        return None
    is_known = stored is not None and stored.revision == snapshot.revision
    if stored is None or (is_known and not checkout.is_shallow()):
        return None if is_known else checkout.changes(snapshot.revision)
    if not is_known and checkout.is_ancestor(stored.revision, snapshot.revision):
        found = checkout.changes(snapshot.revision, since=stored.revision) + load_changes(stored.changes)
    else:
        found = checkout.changes(snapshot.revision)
        if checkout.is_shallow():
            oldest = min((change.date for change in found), default=snapshot.moment)
            found += [each for each in load_changes(stored.changes) if oldest is None or each.date < oldest]
        if is_known and len(found) <= stored.commits:
            return None
    return sorted(found, key=attrgetter("date"), reverse=True)[:HISTORY_COMMITS]
