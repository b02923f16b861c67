"""Values about a repository's files: imports, symbols, and the import graph."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PARSER_VERSION = 2
"""Stored with a parsed file. A different version means that the file must be parsed again."""
BINARY = "binary"
"""Reason for skipping a file whose content is not text."""


@dataclass(frozen=True, slots=True)
class Import:
    """One import as written: `target` is the module or specifier, `names` the imported names.

    `level` counts the dots of a relative import in Python, or the inline modules around one in Rust.
    """

    target: str
    line: int
    kind: str = "import"
    names: tuple[str, ...] = ()
    level: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition: first and last line, counted from 1, and its head without the body."""

    name: str
    kind: str
    start: int
    end: int
    signature: str
    depth: int = 0


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """The parse result of one blob, independent of its path. `language` and `digest` are its key.

    `skipped` gives the reason why nothing was read ("binary", "too large", "minified"). `problems` are lines
    that the grammar could not read. `references` are names that may belong to a file of the same package.
    `settings` are the declarations of a manifest (tsconfig.json, go.mod, Cargo.toml, package.json).
    """

    language: str
    digest: str
    lines: int = 0
    imports: tuple[Import, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    package: str = ""
    references: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[int, ...] = ()
    skipped: str = ""
    version: int = PARSER_VERSION


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not read, or only in part: the reason, and the first line affected (0: all)."""

    path: str
    reason: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class Unresolved:
    """An import that should be in the repository but was not found."""

    path: str
    target: str
    line: int


@dataclass(frozen=True, slots=True)
class CodeGraph:
    """The import graph. `imports` has an entry for every file, including those without imports."""

    files: Mapping[str, ParsedFile]
    imports: Mapping[str, tuple[str, ...]]
    unresolved: tuple[Unresolved, ...] = ()
    external: Mapping[str, int] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()
