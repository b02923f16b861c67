"""The stored form of a parsed content. Pure functions, so that processes can run them in parallel.

Fields are stored by position, not by name. A repository has a hundred thousand symbols, and reading their
field names would take most of the time.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from pydantic_core import from_json, to_json

from contextopt.engine.code.filescores import FileTerms, Reading, read_file
from contextopt.engine.code.graph.parsing import language_of, read_manifest
from contextopt.engine.code.graph.values import Import, ParsedFile, Symbol

# Files in one package of these languages see each other's definitions without an import.
PACKAGE_KINDS = ("go", "java")

_IMPORT = attrgetter("target", "line", "kind", "names", "level")
_SYMBOL = attrgetter("name", "kind", "start", "end", "signature", "depth")
_PARSED = attrgetter(
    "language", "digest", "lines", "package", "references", "settings", "problems", "is_generated", "version"
)


@dataclass(frozen=True, slots=True)
class StoredReading:
    """A reading as stored in the database. A skipped one has only a reason."""

    skipped: str
    symbols: int = 0
    parsed: str = ""
    definitions: str = ""
    terms: str = ""

    @classmethod
    def of(cls, reading: Reading) -> "StoredReading":
        parsed = reading.parsed
        if parsed.skipped:
            return cls(parsed.skipped)
        facts = [list(map(_IMPORT, parsed.imports)), *_PARSED(parsed)]
        return cls(
            "",
            len(parsed.symbols),
            to_json(facts).decode(),
            to_json(list(map(_SYMBOL, parsed.symbols))).decode(),
            to_json([reading.terms.content, reading.terms.symbols, reading.terms.identifiers]).decode(),
        )


def load_parsed(text: str, definitions: str) -> ParsedFile:
    """Return the file that `StoredReading.of` wrote as `parsed` and `definitions`, which may be ""."""
    imports, language, digest, lines, package, references, settings, problems, is_generated, version = (
        from_json(text, cache_strings="all")
    )
    return ParsedFile(
        language=language,
        digest=digest,
        lines=lines,
        imports=tuple(
            Import(target, line, kind, tuple(names), level) for target, line, kind, names, level in imports
        ),
        symbols=tuple(Symbol(*item) for item in from_json(definitions)) if definitions else (),
        package=package,
        references=tuple(references),
        settings=settings,
        problems=tuple(problems),
        is_generated=is_generated,
        version=version,
    )


def load_terms(text: str) -> FileTerms:
    """Return the terms that `StoredReading.of` wrote as `terms`."""
    return FileTerms(*from_json(text, cache_strings="all"))


def skipped_reading(path: str, reason: str) -> Reading:
    """Return the reading of a file that was not read: only its language and the reason."""
    return Reading(ParsedFile(language_of(path), "", skipped=reason), FileTerms({}, {}, {}))


def kind_of(path: str) -> str:
    """Return how a content at this path is read: its language, or the name of its manifest, or ""."""
    name = path.rpartition("/")[2]
    return language_of(path) or (name[:80] if read_manifest(name, "") is not None else "")


def blob_id(content: bytes) -> str:
    """Return git's name of a content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def read_contents(files: Sequence[tuple[str, bytes]]) -> list[StoredReading]:
    """Read a batch of files, as a job for one of several processes."""
    return [StoredReading.of(read_file(path, content)) for path, content in files]


def reading_of(parsed: str, definitions: str, terms: str) -> Reading:
    return Reading(load_parsed(parsed, definitions), load_terms(terms))
