"""A repository prepared for queries: its import graph and word indexes. Each blob is read once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from contextopt.engine.code.graph import CodeGraph, ParsedFile, build_graph, decode, parse_file
from contextopt.engine.code.relevance import Change, Documents, FileTerms, Ranker


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
