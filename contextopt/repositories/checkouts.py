"""Reads files and history of a local folder: a git repository at a revision, or the files as they are."""

import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from contextopt.engine.code.filescores import MAX_PATHS_PER_CHANGE, Change
from contextopt.engine.code.graph.parsing import MAX_BYTES
from contextopt.engine.text.cleaning import cut
from contextopt.errors import InvalidInput
from contextopt.repositories.models import REPOSITORY_NAME_MAX, REPOSITORY_PATH_MAX
from contextopt.repositories.storedfiles import blob_id
from contextopt.spaces.importing.git import (
    LOG_FORMAT,
    LOG_OPTIONS,
    SAFE_GIT,
    Commit,
    git_environment,
    git_line,
    is_shallow,
    parse_log,
    run_git,
    top_folder,
)
from contextopt.spaces.importing.rows import UnusableSource

HISTORY_COMMITS = 2_000
MESSAGE_MAX = 4_000
FILES_MAX = 100_000
# Written or kept by tools, not people. In a repository, git leaves them out itself.
IGNORED_FOLDERS = frozenset(
    {
        ".git", ".hg", ".svn", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".venv", "__pycache__",
        "node_modules",
    }
)  # fmt: skip

TOO_LARGE = "too large"
NOT_READ = {
    "link": "a symbolic link",
    "submodule": "a submodule",
    "special": "not a regular file",
    "name": "its name is not UTF-8",
    "long": f"its path is longer than {REPOSITORY_PATH_MAX} characters",
    "ignored": "an ignored folder",
    "denied": "cannot be read",
    "missing": "missing from the repository",
    "many": f"beyond the first {FILES_MAX:,} files",
}
"""Reasons why a path is not ranked. `too large` is not one of them: such a file is ranked by its path."""
NO_FILE = frozenset(NOT_READ.values())


@dataclass(frozen=True, slots=True)
class Entry:
    """A file as listed, before its content is read. `oid` is git's name of the content."""

    path: str
    oid: str
    size: int
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All files at one moment, by path. `revision` and `moment` are those of the commit, if there is one."""

    entries: Mapping[str, Entry]
    revision: str = ""
    moment: datetime | None = None


class Checkout(Protocol):
    """A source of files."""

    @property
    def folder(self) -> Path: ...

    def snapshot(self, rev: str | None) -> Snapshot:
        """List the files.

        Raises:
            InvalidInput: there is no such revision.
        """
        ...

    def read(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, bytes | None]]:
        """Yield each file's content, or None if it is gone or cannot be read."""
        ...

    def changes(self, revision: str, *, since: str = "") -> list[Change]:
        """Return the changes of the newest commits up to a revision, newest first."""
        ...

    def is_ancestor(self, older: str, newer: str) -> bool: ...

    def origin(self) -> str:
        """Return the address of the remote that it was cloned from, "" if there is none."""
        ...

    def is_shallow(self) -> bool:
        """Return whether only the newest part of the history is here."""
        ...

    def close(self) -> None: ...


@contextmanager
def opened(path: str) -> Iterator[Checkout]:
    """Open the folder's git repository, or the folder without history, and close it after reading.

    A folder within a repository counts as a folder without history, unless it is the repository's top. So
    does a repository without commits.

    Raises:
        InvalidInput: there is no such folder.
    """
    if not path or "\0" in path or not Path(path).is_dir():
        raise InvalidInput.of("REPO", f"{path!r} is not a folder on this machine")
    folder = Path(path).resolve()
    top = top_folder(folder)
    has_history = top is not None and top.resolve() == folder and _commit(folder, "HEAD") is not None
    with closing(GitCheckout(folder) if has_history else FolderCheckout(folder)) as checkout:
        yield checkout


def _commit(folder: Path, rev: str) -> str | None:
    return git_line(folder, ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}"])


@dataclass(slots=True)
class GitCheckout:
    """A repository. The work tree and uncommitted changes are ignored.

    `missing` is the reason why a content is not there, such as the filter of a partial clone.
    """

    folder: Path
    missing: str = NOT_READ["missing"]
    _reader: "_BlobReader | None" = field(default=None, repr=False)

    def snapshot(self, rev: str | None) -> Snapshot:
        rev = "HEAD" if rev is None else rev
        commit = None if rev.startswith("-") or "\0" in rev or not rev else _commit(self.folder, rev)
        if commit is None:
            raise InvalidInput.of("--rev", f"there is no {rev!r} in {self.folder}")
        moment = git_line(self.folder, ["show", "-s", "--no-show-signature", "--format=%cI", commit])
        with run_git(self.folder, ["ls-tree", "-r", "-z", "-l", "--full-tree", commit]) as output:
            listed = [_tree_entry(line, self.missing) for line in output.read().split(b"\0") if line]
        return Snapshot(_bounded(listed), commit, _moment(moment or ""))

    def read(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, bytes | None]]:
        for entry in entries:
            if self._reader is None:
                self._reader = _BlobReader(self.folder)
            yield entry, self._reader.read(entry.oid)

    def changes(self, revision: str, *, since: str = "") -> list[Change]:
        arguments = ["log", *LOG_OPTIONS, LOG_FORMAT, "--no-merges", f"--max-count={HISTORY_COMMITS}"]
        span = f"{since}..{revision}" if since else revision
        with run_git(self.folder, [*arguments, "--end-of-options", span, "--"]) as output:
            found = [_change(commit) for commit in parse_log(output, MAX_PATHS_PER_CHANGE)]
        return [change for change in found if change is not None]

    def is_ancestor(self, older: str, newer: str) -> bool:
        return git_line(self.folder, ["merge-base", "--is-ancestor", older, newer]) is not None

    def origin(self) -> str:
        return git_line(self.folder, ["config", "--get", "remote.origin.url"]) or ""

    def is_shallow(self) -> bool:
        return is_shallow(self.folder)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _tree_entry(line: bytes, missing: str) -> Entry:
    """Read one line of `git ls-tree -l -z`: mode, type, name and size of the content, tab, path."""
    head, _, raw = line.partition(b"\t")
    mode, kind, oid, size = head.split()
    path = raw.decode("utf-8", "replace")
    reason = ""
    if kind == b"commit":
        reason = NOT_READ["submodule"]
    elif mode == b"120000":
        reason = NOT_READ["link"]
    elif path.encode() != raw:
        reason = NOT_READ["name"]
    elif not size.isdigit():
        reason = missing
    return _checked(Entry(path, oid.decode(), int(size) if size.isdigit() else 0, reason))


def _checked(entry: Entry) -> Entry:
    if len(entry.path) > REPOSITORY_PATH_MAX:
        return Entry(cut(entry.path, REPOSITORY_PATH_MAX), "", entry.size, NOT_READ["long"])
    if not entry.skipped and entry.size > MAX_BYTES:
        return Entry(entry.path, entry.oid, entry.size, TOO_LARGE)
    return entry


def _bounded(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Return the entries by path, with those past the limit marked."""
    ordered = sorted(entries, key=lambda entry: entry.path)
    return {
        entry.path: entry if place < FILES_MAX else Entry(entry.path, entry.oid, entry.size, NOT_READ["many"])
        for place, entry in enumerate(ordered[: 2 * FILES_MAX])
    }


def _change(commit: Commit) -> Change | None:
    """Return the parts of a commit that ranking needs, or None if it touched too many files."""
    date = _moment(commit.header["date"])
    if date is None or not 0 < commit.file_count <= MAX_PATHS_PER_CHANGE:
        return None
    message = f"{commit.header['subject']}\n\n{commit.header['body']}".strip()
    return Change(date, message[:MESSAGE_MAX], tuple(commit.files))


class _BlobReader:
    """A running `git cat-file --batch` that reads one content after another. `close` ends it."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - git, with arguments of our own
            [*SAFE_GIT, "cat-file", "--batch"], cwd=folder, env=git_environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def read(self, oid: str) -> bytes | None:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        try:
            requests.write(f"{oid}\n".encode())
            requests.flush()
            head = answers.readline().split()
        except BrokenPipeError:
            head = []
        if not head:
            raise UnusableSource("git ended before its output was read")
        if len(head) != 3 or not head[2].isdigit():
            return None
        content = answers.read(int(head[2]))
        answers.read(1)
        return content

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@dataclass(slots=True)
class FolderCheckout:
    """A folder without a history. Links are not followed, so a circle of them does no harm."""

    folder: Path

    def snapshot(self, rev: str | None) -> Snapshot:
        if rev is not None:
            raise InvalidInput.of("--rev", f"{self.folder} is not the top of a git repository with commits")
        return Snapshot(_bounded(self._entries()))

    def read(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, bytes | None]]:
        for entry in entries:
            yield entry, _file_bytes(self.folder / entry.path)

    def changes(self, revision: str, *, since: str = "") -> list[Change]:  # noqa: ARG002 - there are none
        return []

    def is_ancestor(self, older: str, newer: str) -> bool:  # noqa: ARG002
        return False

    def origin(self) -> str:
        return ""

    def is_shallow(self) -> bool:
        return False

    def close(self) -> None:
        """Do nothing, since nothing is held open."""

    def _entries(self) -> Iterator[Entry]:
        count = 0
        for place, folders, names in os.walk(self.folder):
            folders.sort()
            for name in [name for name in folders if name in IGNORED_FOLDERS]:
                folders.remove(name)
                yield self._refused(place, name, "ignored")
            for name in [name for name in folders if (Path(place) / name).is_symlink()]:
                yield self._refused(place, name, "link")
            for name in sorted(names):
                yield self._entry(Path(place) / name)
            count += len(names)
            if count > 2 * FILES_MAX:
                return

    def _relative(self, path: Path) -> tuple[str, bool]:
        raw = os.fsencode(path.relative_to(self.folder))
        text = raw.decode("utf-8", "replace")
        return text, text.encode() == raw

    def _refused(self, place: str, name: str, reason: str) -> Entry:
        return _checked(Entry(self._relative(Path(place) / name)[0], "", 0, NOT_READ[reason]))

    def _entry(self, path: Path) -> Entry:
        name, is_plain = self._relative(path)
        if not is_plain:
            return _checked(Entry(name, "", 0, NOT_READ["name"]))
        try:
            status = path.lstat()
        except OSError:
            return Entry(name, "", 0, NOT_READ["denied"])
        if not stat.S_ISREG(status.st_mode):
            is_link = stat.S_ISLNK(status.st_mode)
            return _checked(Entry(name, "", 0, NOT_READ["link" if is_link else "special"]))
        entry = _checked(Entry(name, "", status.st_size))
        if entry.skipped:
            return entry
        content = _file_bytes(path)
        if content is None:
            return Entry(name, "", status.st_size, NOT_READ["denied"])
        return Entry(name, blob_id(content), len(content))


def _file_bytes(path: Path) -> bytes | None:
    """Return a file's bytes, cut one past the limit, or None if it is gone or cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError:
        return None


FALLBACK = "repository"
# Names that say nothing about the project.
GENERIC_NAMES = frozenset(
    {
        "app", "checkout", "clone", "code", "data", "git", "home", "main", "master", "mnt", "opt", "project",
        "repo", "repos", "repositories", "repository", "root", "source", "src", "srv", "tmp", "trunk",
        "users", "var", "work", "workspace", "worktree",
    }
)  # fmt: skip


def name_of(folder: str, origin: str = "") -> str:
    """Return the name for a folder's repository, in plain characters.

    It is the folder's own name. If that is generic, such as `repo` or `src`, it is the last part of `origin`,
    the address of its remote. If that is generic too, it is the nearest parent folder with a specific name.
    """
    own, remote = list(_parts(folder)), list(_parts(origin))
    last = own[-1:]
    specific = (part for part in (*last, *remote[-1:], *own[-2::-1]) if part.lower() not in GENERIC_NAMES)
    return next(specific, last[0] if last else FALLBACK)


def _parts(address: str) -> Iterator[str]:
    """Yield the parts of a path or address, without characters that a name cannot contain."""
    for part in re.split(r"[/\\:]", address):
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", part.removesuffix(".git")).strip("-.")
        if plain:
            yield plain[: REPOSITORY_NAME_MAX - 8]
