"""Values about a repository's files: imports, symbols, and the import graph."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

PARSER_VERSION = 3
"""Stored with a parsed file. A different version means that the file must be parsed again."""
BINARY = "binary"
MINIFIED = "minified"
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
    `is_generated` tells that its first lines say that a program wrote it.
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
    is_generated: bool = False
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


class Resolution(NamedTuple):
    """The files that an import refers to: none for an external, circular or broken import."""

    targets: tuple[str, ...] = ()
    is_external: bool = False
    is_missing: bool = False

    @classmethod
    def to(cls, found: str | None, path: str) -> "Resolution":
        """Return the file found for an import in `path`. A file does not refer to itself."""
        if found is None:
            return MISSING
        return cls((found,) if found != path else ())


EXTERNAL = Resolution(is_external=True)
MISSING = Resolution(is_missing=True)


class Resolver(Protocol):
    """Finds the files of one language's imports."""

    def resolve(self, path: str, item: Import) -> Resolution: ...


@dataclass(frozen=True, slots=True)
class FileSet:
    """All files, and the direct children of each folder ("" is the root)."""

    files: Mapping[str, ParsedFile]
    folders: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, files: Mapping[str, ParsedFile]) -> "FileSet":
        folders: dict[str, list[str]] = {}
        for path in sorted(files):
            folders.setdefault(parent(path), []).append(path)
        return cls(files, {folder: tuple(paths) for folder, paths in folders.items()})

    def named(self, name: str) -> list[tuple[str, ParsedFile]]:
        """Return the files of that name with their folders."""
        return [
            (parent(path), parsed)
            for path, parsed in sorted(self.files.items())
            if path == name or path.endswith(f"/{name}")
        ]

    def first(self, candidates: Iterable[str]) -> str | None:
        return next((path for path in candidates if path in self.files), None)


def parent(path: str) -> str:
    """Return the folder of a path, "" at the top."""
    return path.rpartition("/")[0]


def within(folder: str, name: str) -> str:
    """Return the path of a name in a folder."""
    return f"{folder}/{name}" if folder else name


def join(folder: str, relative: str) -> str | None:
    """Join a path to a folder, resolving "." and "..". Return None if it leaves the repository."""
    parts = folder.split("/") if folder and not relative.startswith("/") else []
    for part in relative.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def ancestors(folder: str) -> Iterable[str]:
    """Yield the folder and all above it, the root last."""
    while folder:
        yield folder
        folder = parent(folder)
    yield ""
