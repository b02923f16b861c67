"""Ranks a repository's files for a task, as a list and as a text within a token budget."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from contextopt.engine.code.filescores import RankedFile, Ranker, Reading, RepositoryIndex, read_file
from contextopt.engine.code.graph.parsing import decode
from contextopt.engine.code.graph.values import ParsedFile
from contextopt.engine.code.packing import FULL, PATH, Packed, PackedFile, Source, pack
from contextopt.engine.text.cleaning import flatten
from contextopt.engine.text.tokens import Tokenizer
from contextopt.errors import FieldProblem, InvalidInput
from contextopt.repositories.checkouts import NO_FILE, Checkout, Entry
from contextopt.repositories.graphs import (
    ContentGone,
    LoadedIndex,
    load_index,
    paused_collector,
    read_unchanged,
)
from contextopt.repositories.inputs import RelevantIn
from contextopt.repositories.models import CodeBlob, Repository
from contextopt.repositories.storedfiles import kind_of, skipped_reading

RANKED_MAX = 200
"""Pack the text from this many of the best files."""
FETCHED_AT_ONCE = 24
READINGS_KEPT = 50_000
# Without a history, files have no age, so any moment ranks them alike.
NO_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)

type Fetch = Callable[[Sequence[str]], Mapping[str, bytes]]


@dataclass(frozen=True, slots=True)
class Relevant:
    """The result for one task."""

    revision: str
    encoding: str
    budget: int
    ranked: Sequence[RankedFile]
    packed: Packed
    contents: Sequence[tuple[str, str]]

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON. A phase accepts its `files` as they are."""
        return {
            "revision": self.revision,
            "ranked": [
                {"path": file.path, "score": file.score, "parts": dict(file.parts)} for file in self.ranked
            ],
            "text": self.packed.text,
            "tokens": self.packed.tokens,
            "budget": self.budget,
            "encoding": self.encoding,
            "shown": [
                {"path": file.path, "mode": file.mode, "tokens": file.tokens} for file in self.packed.files
            ],
            "files": [{"path": path, "content": content} for path, content in self.contents],
        }


def rank_repository(repository: Repository, request: RelevantIn) -> Relevant:
    """Rank the files of a repository as last indexed.

    Raises:
        InvalidInput: a seed is not among its files.
        Conflict: it changes faster than it can be read.
        UnknownEncoding: the tokenizer is not available.
    """
    return read_unchanged(repository, lambda: _rank_stored(repository, request))


def _rank_stored(repository: Repository, request: RelevantIn) -> Relevant:
    tokenizer = request.tokenizer(repository.team_id).remembering()
    loaded = load_index(repository)

    def fetch(paths: Sequence[str]) -> dict[str, bytes]:
        blobs = {path: loaded.files[path].blob_id for path in paths}
        wanted = [blob for blob in blobs.values() if blob is not None]
        contents = dict(CodeBlob.objects.filter(pk__in=wanted).values_list("pk", "content"))
        if len(contents) < len(set(wanted)):
            raise ContentGone
        return {path: bytes(contents[blob]) for path, blob in blobs.items() if blob is not None}

    now = repository.revision_at or NO_MOMENT
    return _answer(request, tokenizer, loaded.ranker, loaded.index, fetch, now, repository.revision)


def _answer(
    request: RelevantIn,
    tokenizer: Tokenizer,
    ranker: Ranker,
    index: RepositoryIndex,
    fetch: Fetch,
    now: datetime,
    revision: str,
) -> Relevant:
    files = index.graph.files
    where = f"the repository at {revision[:12]}" if revision else "the repository"
    missing = [
        FieldProblem(f"seeds.{place}", f"{where} has no file {path!r}")
        for place, path in enumerate(request.seeds)
        if path not in files
    ]
    if missing:
        raise InvalidInput(missing)
    best = ranker.rank(request.task, now, request.seeds, limit=max(RANKED_MAX, request.limit))
    sources = _Sources([file.path for file in best], index.graph.files, fetch)
    packed = pack(
        best[:RANKED_MAX],
        sources,
        request.budget,
        tokenizer,
        query=request.task,
        rarity=ranker.rarity(request.task),
    )
    contents = tuple(shown_contents(packed, sources))
    return Relevant(revision, tokenizer.name, request.budget, best[: request.limit], packed, contents)


class _Sources(Mapping[str, Source]):
    """The ranked files' texts, fetched in batches, because packing seldom needs more than the best few."""

    def __init__(self, order: Sequence[str], files: Mapping[str, ParsedFile], fetch: Fetch) -> None:
        self._order = [path for path in order if not files[path].skipped]
        self._files = files
        self._fetch = fetch
        self._texts: dict[str, str] = {}
        self._fetched = 0

    def __getitem__(self, path: str) -> Source:
        while path not in self._texts and self._fetched < len(self._order):
            some = self._order[self._fetched : self._fetched + FETCHED_AT_ONCE]
            self._fetched += len(some)
            self._texts |= {found: decode(content) for found, content in self._fetch(some).items()}
        return Source(self._texts[path], self._files[path])

    def __iter__(self) -> Iterator[str]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)


def shown_contents(packed: Packed, sources: Mapping[str, Source]) -> Iterator[tuple[str, str]]:
    """Yield each file's path and the part of it that the text shows, without headings."""
    shown = [file for file in packed.files if file.mode != PATH]
    heads = [_heading(file, sources[file.path].text) for file in shown]
    at = 0
    for place, file in enumerate(shown):
        start = at + len(heads[place])
        if file.mode == FULL:
            text = sources[file.path].text.rstrip()
            at = start + len(text) + bool(text)
            yield file.path, f"{text}\n" if text else ""
            continue
        following = heads[place + 1] if place + 1 < len(heads) else "## Further files\n"
        end = packed.text.find(f"\n{following}", start)
        at = len(packed.text) if end < 0 else end + 1
        yield file.path, packed.text[start:at]


def _heading(file: PackedFile, text: str) -> str:
    lines = text.rstrip().split("\n")
    if file.mode == FULL:
        return f"## {flatten(file.path)}\n" if text.rstrip() else f"## {flatten(file.path)} (empty)\n"
    return f"## {flatten(file.path)} ({file.mode}, {len(lines)} lines)\n"


@dataclass(slots=True)
class RevisionRanker:
    """Ranks the files of a checkout as they were at a series of revisions.

    Each ranking uses the history up to its revision. Only files that differ from the previous revision are
    read, and nothing is stored. With `start`, the stored index, the first ranking reads little too.
    """

    checkout: Checkout
    team_id: int
    start: LoadedIndex | None = None
    _files: dict[str, str] = field(default_factory=dict)
    _entries: Mapping[str, Entry] = field(default_factory=dict)
    _index: RepositoryIndex | None = None
    _ranker: Ranker | None = None
    _revision: str | None = None
    _moment: datetime = NO_MOMENT
    _readings: dict[tuple[str, str], Reading] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.start is not None:
            self._files = {path: file.oid for path, file in self.start.files.items()}
            self._index = self.start.index

    def rank(self, rev: str | None, request: RelevantIn) -> Relevant:
        """Rank the files for a task at a revision.

        Raises:
            InvalidInput: there is no such revision, or a seed is not among its files.
            UnknownEncoding: the tokenizer is not available.
        """
        tokenizer = request.tokenizer(self.team_id).remembering()
        index, ranker = self._at(rev)
        return _answer(request, tokenizer, ranker, index, self._fetch, self._moment, self._revision or "")

    def _at(self, rev: str | None) -> tuple[RepositoryIndex, Ranker]:
        snapshot = self.checkout.snapshot(rev)
        if self._ranker is None or self._index is None or snapshot.revision != self._revision:
            entries = {path: item for path, item in snapshot.entries.items() if item.skipped not in NO_FILE}
            with paused_collector():
                self._index = self._index_of(entries)
                self._ranker = self._index.ranker(self.checkout.changes(snapshot.revision))
            self._entries = entries
            self._files = {path: entry.oid for path, entry in entries.items()}
            self._revision, self._moment = snapshot.revision, snapshot.moment or NO_MOMENT
        return self._index, self._ranker

    def _index_of(self, entries: Mapping[str, Entry]) -> RepositoryIndex:
        differing = [entry for path, entry in entries.items() if self._files.get(path) != entry.oid]
        changed = self._read(differing)
        if self._index is None:
            return RepositoryIndex.build(changed)
        return self._index.updated(changed, sorted(self._files.keys() - entries.keys()))

    def _read(self, entries: Iterable[Entry]) -> dict[str, Reading]:
        found: dict[str, Reading] = {}
        unread: list[Entry] = []
        for entry in entries:
            if entry.skipped:
                found[entry.path] = skipped_reading(entry.path, entry.skipped)
            elif (known := self._readings.get((kind_of(entry.path), entry.oid))) is not None:
                found[entry.path] = known
            else:
                unread.append(entry)
        if len(self._readings) > READINGS_KEPT:
            self._readings.clear()
        for entry, content in self.checkout.read(unread):
            reading = (
                skipped_reading(entry.path, "missing") if content is None else read_file(entry.path, content)
            )
            found[entry.path] = self._readings[kind_of(entry.path), entry.oid] = reading
        return found

    def _fetch(self, paths: Sequence[str]) -> dict[str, bytes]:
        contents = self.checkout.read(self._entries[path] for path in paths)
        return {entry.path: content for entry, content in contents if content is not None}
