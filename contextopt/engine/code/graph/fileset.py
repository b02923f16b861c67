"""The files of a repository, indexed for import resolution."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from contextopt.engine.code.graph.values import Import, ParsedFile


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
