"""Rank the files of a repository for a task by its words, the history and the imports."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Self

import numpy as np
from numpy.typing import NDArray

from contextopt.engine.code.graph.importgraph import Links, build_graph
from contextopt.engine.code.graph.parsing import decode, parse_file
from contextopt.engine.code.graph.values import BINARY, MINIFIED, CodeGraph, ParsedFile
from contextopt.engine.code.kinds import Kinds
from contextopt.engine.text.lexical import (
    Bm25,
    LexicalIndex,
    distinct_terms,
    path_terms,
    terms,
    terms_and_identifiers,
    weigh_task,
)
from contextopt.engine.validation import utc

Signal = NDArray[np.float64]

MAX_PATHS_PER_CHANGE = 50
"""A change of more files, such as a mass rename, does not show which files belong together."""
SIMILAR_CHANGES = 40
SCORE_DECIMALS = 9

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of each signal. A seed counts more than all others together."""

    content: float = 1.0
    identifiers: float = 0.5
    path: float = 0.8
    symbols: float = 0.45
    similar: float = 0.4
    recency: float = 0.4
    cochange: float = 0.4
    graph: float = 0.4
    kind: float = -0.5
    seed: float = 5.0


@dataclass(frozen=True, slots=True)
class Change:
    """A commit: its time, its message, and the paths of its files after it."""

    date: datetime
    message: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileTerms:
    """The term counts of one file's content. They depend on the blob only."""

    content: Mapping[str, int]
    symbols: Mapping[str, int]
    identifiers: Mapping[str, int]

    @classmethod
    def of(cls, parsed: ParsedFile, text: str) -> Self:
        """Count the terms. A skipped file has none."""
        if parsed.skipped:
            return cls({}, {}, {})
        names = " ".join(symbol.name for symbol in parsed.symbols)
        content, identifiers = terms_and_identifiers(text)
        return cls(dict(content), dict(terms(names)), dict(identifiers))


@dataclass(frozen=True, slots=True)
class Documents:
    """Four indexes over the same files: their words, the names they define, whole identifiers, and paths."""

    content: LexicalIndex
    symbols: LexicalIndex
    identifiers: LexicalIndex
    paths: LexicalIndex

    @classmethod
    def build(cls, files: Mapping[str, FileTerms]) -> Self:
        return cls(
            LexicalIndex.build({path: file.content for path, file in files.items()}),
            LexicalIndex.build({path: file.symbols for path, file in files.items()}),
            LexicalIndex.build({path: file.identifiers for path, file in files.items()}),
            LexicalIndex.build({path: path_terms(path) for path in files}),
        )

    def updated(self, changed: Mapping[str, FileTerms], removed: Sequence[str] = ()) -> Self:
        """Return the indexes with some files replaced, added or removed."""
        return type(self)(
            self.content.updated({path: file.content for path, file in changed.items()}, removed),
            self.symbols.updated({path: file.symbols for path, file in changed.items()}, removed),
            self.identifiers.updated({path: file.identifiers for path, file in changed.items()}, removed),
            self.paths.updated({path: path_terms(path) for path in changed}, removed),
        )


@dataclass(frozen=True, slots=True)
class History:
    """Past changes in flat arrays: touch i says that change `changes[i]` touched file `files[i]`.

    `days` has shape (n_changes,): the days from the first change to each. `sizes` are their numbers of files.
    """

    paths: tuple[str, ...]
    messages: LexicalIndex
    start: datetime
    days: NDArray[np.float64]
    sizes: NDArray[np.float64]
    changes: NDArray[np.int64]
    files: NDArray[np.int64]

    @classmethod
    def of(cls, changes: Iterable[Change], paths: Iterable[str]) -> Self:
        """Map changes to current files. A moved file is matched by the end of its path."""
        ordered = sorted(changes, key=lambda change: (utc("date", change.date), change.message, change.paths))
        kept = [change for change in ordered if len(change.paths) <= MAX_PATHS_PER_CHANGE]
        current = tuple(sorted(paths))
        places = _Places(current)
        touches = [
            (number, place) for number, change in enumerate(kept) for place in places.find_all(change.paths)
        ]
        array = np.array(touches, dtype=np.int64).reshape(-1, 2)
        start = utc("date", kept[0].date) if kept else datetime.min.replace(tzinfo=UTC)
        return cls(
            paths=current,
            messages=LexicalIndex.build(
                {f"{number:09}": terms(change.message) for number, change in enumerate(kept)}
            ),
            start=start,
            days=np.array([(utc("date", change.date) - start) / _DAY for change in kept], dtype=np.float64),
            sizes=np.array([max(1, len(change.paths)) for change in kept], dtype=np.float64),
            changes=array[:, 0],
            files=array[:, 1],
        )


class _Places:
    """Finds the current file for a past path."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._numbers = {path: number for number, path in enumerate(paths)}
        self._ends: dict[str, int | None] = {}
        for path, number in self._numbers.items():
            if end := _end(path):
                self._ends[end] = None if end in self._ends else number

    def find_all(self, paths: Iterable[str]) -> list[int]:
        found = {self._numbers.get(path, self._ends.get(_end(path))) for path in paths}
        return sorted(number for number in found if number is not None)


def _end(path: str) -> str:
    """Return the file's name with its folder, or "" at the top level."""
    return "/".join(path.split("/")[-2:]) if "/" in path else ""


@dataclass(frozen=True, slots=True)
class RankedFile:
    """A file with its score and the weighted part of each signal."""

    path: str
    score: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Ranker:
    """A repository's prepared data, built once for many queries."""

    documents: Documents
    links: Links
    history: History
    kinds: Kinds
    frequencies: tuple[NDArray[np.int64], NDArray[np.int64]]
    binaries: Mapping[int, Set[str]]
    """The terms of the names of binary files, by place."""

    @classmethod
    def of(cls, graph: CodeGraph, documents: Documents, changes: Iterable[Change] = ()) -> Self:
        links = Links.of(graph)
        frequencies = (documents.content.containing(), documents.identifiers.containing())
        binaries = {
            place: distinct_terms(PurePosixPath(path).stem)
            for place, path in enumerate(links.paths)
            if graph.files[path].skipped == BINARY
        }
        history = History.of(changes, graph.imports)
        generated = {
            path for path, file in graph.files.items() if file.is_generated or file.skipped == MINIFIED
        }
        return cls(documents, links, history, Kinds.of(links.paths, generated), frequencies, binaries)

    def rarity(self, query: str) -> dict[str, float]:
        """Return the idf of the task's terms and whole identifiers that are in the repository."""
        indexes = zip((self.documents.content, self.documents.identifiers), self.frequencies, strict=True)
        return {
            term: Bm25().idf(len(index.keys), int(frequencies[number]))
            for wanted, (index, frequencies) in zip(weigh_task(query), indexes, strict=True)
            for term in wanted
            if (number := index.vocabulary.get(term)) is not None
        }

    def rank(
        self,
        query: str,
        now: datetime,
        seeds: Iterable[str] = (),
        weights: Weights = Weights(),  # frozen
        limit: int | None = None,
    ) -> list[RankedFile]:
        """Return the best files, or all without a limit; equal ones by path.

        Unknown seeds are ignored. A binary file is left out unless it is a seed or the task names it.
        """
        signals = self.signals(query, seeds, utc("now", now))
        factors = {field.name: getattr(weights, field.name) for field in fields(weights)}
        parts = np.stack([signals[name] * factor for name, factor in factors.items()])
        parts = np.round(parts, SCORE_DECIMALS)
        total = np.round(parts.sum(axis=0), SCORE_DECIMALS)
        # A stable sort leaves equal files in the order of their paths.
        best = np.argsort(-total, kind="stable")
        words = distinct_terms(query)
        unnamed = [place for place, names in self.binaries.items() if not names & words]
        best = best[~np.isin(best, unnamed) | (signals["seed"][best] > 0)][:limit]
        columns = zip(total[best].tolist(), parts[:, best].T.tolist(), strict=True)
        return [
            RankedFile(
                self.links.paths[place],
                score,
                {name: part for name, part in zip(factors, column, strict=True) if part},
            )
            for place, (score, column) in zip(best.tolist(), columns, strict=True)
        ]

    def signals(self, query: str, seeds: Iterable[str], now: datetime) -> dict[str, Signal]:
        """Return each signal as an array of shape (n_files,), in the order of the sorted paths."""
        words, wholes = weigh_task(query)
        bm25, damping = Bm25(), self.kinds.damping(query)
        content = scaled(self.documents.content.scores(words, bm25) * damping)
        identifiers = self.documents.identifiers.scores(wholes, Bm25(b=0.3)) * damping
        path = scaled(self.documents.paths.scores(words, Bm25(b=0.5)) * damping)
        symbols = scaled(self.documents.symbols.scores(words, bm25) * damping)
        similar = scaled(self._similar(words, now))
        wanted = set(seeds)
        seed = np.array([float(known in wanted) for known in self.links.paths])
        start = (content + 0.6 * path + 0.3 * symbols + 0.5 * similar) ** 3 + 20 * seed
        history = self.history
        fresh = 0.5 ** (self._ages(now) / 90) / np.sqrt(history.sizes)
        counted = np.bincount(history.files, weights=fresh[history.changes], minlength=len(history.paths))
        return {
            "content": content,
            "identifiers": scaled(identifiers),
            "path": path,
            "symbols": symbols,
            "similar": similar,
            "recency": scaled(np.log1p(counted)),
            "cochange": scaled(self._cochange(start, now)),
            "graph": scaled(self.links.spread(start, 0.5)),
            "kind": self.kinds.steps(query) * (1 - seed),
            "seed": seed,
        }

    def _ages(self, now: datetime) -> Signal:
        if not len(self.history.days):
            return self.history.days
        return np.maximum(0.0, (now - self.history.start) / _DAY - self.history.days)

    def _similar(self, words: Mapping[str, float], now: datetime) -> Signal:
        """Score files by past changes with a similar message. A small change counts more than a large one."""
        history = self.history
        found = history.messages.scores(words, Bm25())
        if len(found) > SIMILAR_CHANGES:
            found = np.where(found >= np.partition(found, -SIMILAR_CHANGES)[-SIMILAR_CHANGES], found, 0.0)
        share = found / np.sqrt(history.sizes) * 0.5 ** (self._ages(now) / 1000)
        return np.bincount(history.files, weights=share[history.changes], minlength=len(history.paths))

    def _cochange(self, start: Signal, now: datetime) -> Signal:
        """Spread scores from files to the other files in the same changes.

        A change of most files, such as the first import, does not show which files belong together.
        """
        history = self.history
        is_partial = 2 * history.sizes <= len(history.paths)
        weight = 0.5 ** (self._ages(now) / 365)
        mass = np.bincount(history.changes, weights=start[history.files], minlength=len(history.sizes))
        touched = np.bincount(history.files, minlength=len(history.paths))
        share = mass * weight * is_partial / history.sizes**1.5
        gained = np.bincount(history.files, weights=share[history.changes], minlength=len(history.paths))
        return gained / np.sqrt(np.maximum(1, touched))


def scaled(values: Signal) -> Signal:
    """Return a signal, shape (n,), with its highest value at 1; all zeros stay zeros."""
    highest = float(values.max()) if len(values) else 0.0
    return values / highest if highest > 0 else values


@dataclass(frozen=True, slots=True)
class Reading:
    """The parse result and term counts of one blob. Cache it by language, manifest name and digest."""

    parsed: ParsedFile
    terms: FileTerms


def read_file(path: str, content: bytes) -> Reading:
    """Parse a file and count its terms. Safe to run for many files in parallel processes."""
    parsed = parse_file(path, content)
    return Reading(parsed, FileTerms.of(parsed, "" if parsed.skipped else decode(content)))


@dataclass(frozen=True, slots=True)
class RepositoryIndex:
    """The import graph and the word indexes of the same files."""

    graph: CodeGraph
    documents: Documents

    @classmethod
    def build(cls, readings: Mapping[str, Reading]) -> Self:
        return cls(
            build_graph({path: reading.parsed for path, reading in readings.items()}),
            Documents.build({path: reading.terms for path, reading in readings.items()}),
        )

    def updated(self, changed: Mapping[str, Reading], removed: Iterable[str] = ()) -> Self:
        """Return the index with some files replaced, added or removed. The others are not read again."""
        gone = set(removed)
        files = {path: parsed for path, parsed in self.graph.files.items() if path not in gone}
        files |= {path: reading.parsed for path, reading in changed.items()}
        return type(self)(
            build_graph(files),
            self.documents.updated({path: item.terms for path, item in changed.items()}, sorted(gone)),
        )

    def ranker(self, changes: Iterable[Change] = ()) -> Ranker:
        return Ranker.of(self.graph, self.documents, changes)
