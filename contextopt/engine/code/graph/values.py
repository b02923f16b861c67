"""What is known of a repository's files: imports, symbols, and the graph that the imports make."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PARSER_VERSION = 1
"""Stored beside a parsed file; another version means that it must be parsed again."""


@dataclass(frozen=True, slots=True)
class Import:
    """One import as written: `target` is the module or specifier, `names` what is taken from it.

    `level` counts the dots of a relative import of Python, or the inline modules around one of Rust.
    """

    target: str
    line: int
    kind: str = "import"
    names: tuple[str, ...] = ()
    level: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition: its lines, both included and counted from 1, and its head without the body."""

    name: str
    kind: str
    start: int
    end: int
    signature: str
    depth: int = 0


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """What one blob says, whatever its path; `language` and `digest` are its key.

    `skipped` says why nothing was read from it ("binary", "too large", "minified"); `problems` are lines
    that its grammar could not read. `references` are names that may belong to a file of the same package,
    `settings` what a manifest (tsconfig.json, go.mod, Cargo.toml, package.json) declares.
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
    """A file that was not read, or not wholly: its reason, and the first line in question (0: all)."""

    path: str
    reason: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class Unresolved:
    """An import that points into the repository, at nothing."""

    path: str
    target: str
    line: int


@dataclass(frozen=True, slots=True)
class CodeGraph:
    """Who imports whom. `imports` has an entry for every file, also those that import nothing."""

    files: Mapping[str, ParsedFile]
    imports: Mapping[str, tuple[str, ...]]
    unresolved: tuple[Unresolved, ...] = ()
    external: Mapping[str, int] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()
