"""Opens an uploaded archive as a checkout: the git repository in it, or else its files.

Settings and hooks of a stranger's repository could name programs to run. So a new repository is made, into
which only the objects are moved.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

from contextopt.repositories.checkouts import NOT_READ, Checkout, Entry, FolderCheckout, GitCheckout
from contextopt.spaces.importing.archives import is_archive, unpack
from contextopt.spaces.importing.git import git_line, run_git
from contextopt.spaces.importing.rows import UnusableSource

OID = r"[0-9a-f]{64}|[0-9a-f]{40}"
SHA256_CHARS = 64
REFERENCES_MAX_BYTES = 16 * 2**20
_OID = re.compile(OID)
_REFERENCE = re.compile(r"refs/[^\x00-\x20\x7f~^:?*\[\\]+")
_OBJECT_FOLDER = re.compile(r"[0-9a-f]{2}")
_OBJECT = re.compile(r"[0-9a-f]{62}|[0-9a-f]{38}")
_PACK = re.compile(rf"pack-(?:{OID})\.(?:pack|idx)")


@dataclass(slots=True)
class UploadedCheckout(GitCheckout):
    """A repository from an upload. A content that is not what its name says is not read."""

    def read(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, bytes | None]]:
        for entry, content in GitCheckout.read(self, entries):
            yield entry, content if content is not None and _oid_of(content, entry.oid) == entry.oid else None


def _oid_of(content: bytes, like: str) -> str:
    """Return git's name of a content, by the hash that another name has."""
    named = b"blob %d\0" % len(content) + content
    if len(like) == SHA256_CHARS:
        return hashlib.sha256(named).hexdigest()
    return hashlib.sha1(named, usedforsecurity=False).hexdigest()


@contextmanager
def opened_archive(archive: Path, *, missing: str = NOT_READ["missing"]) -> Iterator[Checkout]:
    """Unpack an archive, open what is in it, and delete it after reading. See `GitCheckout` for `missing`.

    Raises:
        UnusableSource: it is no archive, is damaged or too large, or its repository has no commits.
    """
    if not is_archive(archive):
        raise UnusableSource("this file is not a zip or tar archive")
    with TemporaryDirectory(prefix="contextopt-index-") as place:
        unpacked = Path(place, "unpacked")
        unpacked.mkdir()
        # A skipped entry is missing from the repository too. Links of a folder are not followed.
        for _ in unpack(archive, unpacked, ZoneInfo("UTC")):
            pass
        folder, is_repository = _find(unpacked)
        repository = _rebuild(folder, Path(place, "repository.git")) if is_repository else None
        with closing(
            UploadedCheckout(repository, missing) if repository else FolderCheckout(folder)
        ) as checkout:
            yield checkout


def _find(folder: Path) -> tuple[Path, bool]:
    """Return the repository in a folder and True, or else the folder that has the files.

    Folders that are alone in another one are entered, as most archives have them.
    """
    while True:
        for candidate in (folder / ".git", folder):
            if (candidate / "HEAD").is_file() and (candidate / "objects").is_dir():
                return candidate, True
        inside = list(folder.iterdir())
        if len(inside) != 1 or not inside[0].is_dir():
            return folder, False
        folder = inside[0]


def _rebuild(source: Path, target: Path) -> Path:
    """Make a repository at the commit that another one is at, and move the objects into it."""
    revision = _head(source)
    kind = "sha256" if len(revision) == SHA256_CHARS else "sha1"
    with run_git(
        target.parent, ["init", "--quiet", "--bare", "--template=", f"--object-format={kind}", target.name]
    ) as output:
        output.read()
    objects = target / "objects"
    for path in _objects(source / "objects"):
        goal = objects / path.relative_to(source / "objects")
        goal.parent.mkdir(exist_ok=True)
        path.rename(goal)
    ends = [line for line in _lines(source / "shallow") if _OID.fullmatch(line)]
    if ends:
        (target / "shallow").write_text("\n".join([*ends, ""]))
    (target / "HEAD").write_text(f"{revision}\n")
    if git_line(target, ["rev-parse", "--verify", "--quiet", f"{revision}^{{tree}}"]) is None:
        raise UnusableSource(
            f"the archive lacks the commit {revision[:12]}; it must contain the whole folder .git"
        )
    return target


def _objects(folder: Path) -> Iterator[Path]:
    """Yield the files of objects and packs by their names, which is all that git needs."""
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        names = _PACK if inner.name == "pack" else _OBJECT if _OBJECT_FOLDER.fullmatch(inner.name) else None
        if names is not None:
            yield from (path for path in inner.iterdir() if path.is_file() and names.fullmatch(path.name))


def _head(git: Path) -> str:
    """Return the commit that a repository is at.

    Raises:
        UnusableSource: it has no commits, or its references cannot be read.
    """
    text = next(iter(_lines(git / "HEAD")), "")
    name = text.removeprefix("ref:").strip()
    if text.startswith("ref:") and _REFERENCE.fullmatch(name) and ".." not in name:
        packed = (line.partition(" ") for line in _lines(git / "packed-refs"))
        text = next(iter(_lines(git / name)), "") or next((oid for oid, _, ref in packed if ref == name), "")
    if not _OID.fullmatch(text):
        raise UnusableSource("the archive's repository has no commits, or its HEAD cannot be read")
    return text


def _lines(path: Path) -> list[str]:
    """Return the lines of a small file, none if it is missing."""
    if not path.is_file():
        return []
    with path.open("rb") as file:
        return file.read(REFERENCES_MAX_BYTES).decode("utf-8", "replace").splitlines()
