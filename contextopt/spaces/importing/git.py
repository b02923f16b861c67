"""Reads commits as records from `git log` while it runs."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pydantic import TypeAdapter, ValidationError

from contextopt.inputs import Moment, field_problems
from contextopt.spaces import models as limits
from contextopt.spaces.importing.files import quoted
from contextopt.spaces.importing.rows import Found, Notice, RawRow, Rejection, UnusableSource

FILES_SHOWN = 100
TAGS_SHOWN = 8
TOKEN_MAX_BYTES = 4 * 2**20
CHUNK_BYTES = 2**16
# Run nothing that a repository's own settings name: no hooks, watchers, signature or diff programs.
SAFE_GIT = [
    "git",
    "--no-pager",
    "-c",
    "safe.directory=*",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
]
LOG_OPTIONS = [
    "-z", "--name-only", "--no-renames", "--diff-merges=off", "--root", "--no-color", "--no-notes",
    "--no-show-signature", "--no-ext-diff", "--no-textconv", "--encoding=UTF-8",
]  # fmt: skip
HEADER = ("sha", "date", "author", "email", "subject", "body")
LOG_FORMAT = "--format=%x00%H%x00%cI%x00%an%x00%ae%x00%s%x00%b%x00"
SHALLOW = (
    "the clone is shallow, so its older commits are missing; `git fetch --unshallow` gets them, "
    "then run this again"
)
_MOMENT: TypeAdapter[Moment] = TypeAdapter(Moment)


@dataclass(slots=True)
class Commit:
    """A commit with only its first `files_kept` files, its first folders, and the count of all its files."""

    header: dict[str, str]
    files_kept: int
    files: list[str] = field(default_factory=list)
    folders: dict[str, None] = field(default_factory=dict)
    file_count: int = 0

    def add_file(self, path: str) -> None:
        self.file_count += 1
        if len(self.files) < self.files_kept:
            self.files.append(path)
        folder, slash, _ = path.partition("/")
        if slash and len(self.folders) < TAGS_SHOWN:
            self.folders[folder[: limits.TAG_MAX]] = None


def read_commits(repository: str, *, rev: str = "HEAD", limit: int | None = None) -> Iterator[Found]:
    """Yield a row for each commit, newest first. Its line is the commit's number, from 1.

    Raises:
        UnusableSource: there is no repository, no such revision or no commit yet.
    """
    root = find_repository(repository)
    if rev.startswith("-"):
        raise UnusableSource(f"--rev: {rev!r} is an option, not a revision")
    newest = git_line(root, ["rev-list", "--max-count=1", "--end-of-options", rev, "--"])
    if newest is None:
        raise UnusableSource(
            f"REPO: {repository} has no commits yet" if rev == "HEAD" else f"--rev: there is no {rev!r}"
        )
    # A range may hold no commit. Trees and files never do.
    if not newest and ".." not in rev:
        raise UnusableSource(f"--rev: {rev!r} is not a commit")
    if is_shallow(root):
        yield Notice(0, SHALLOW)
    count = [f"--max-count={limit}"] if limit else []
    arguments = ["log", *LOG_OPTIONS, LOG_FORMAT, *count, "--end-of-options", rev, "--"]
    name = root.name.removesuffix(".git") or root.name
    number = 0
    try:
        with run_git(root, arguments) as output:
            for number, commit in enumerate(parse_log(output, FILES_SHOWN), start=1):
                yield _refuse_date(commit, number) or _commit_row(commit, number, f"git:{name}")
    except UnusableSource as error:
        if number == 0:
            raise
        yield Rejection(number + 1, "row", f"the history cannot be read beyond this point: {error}")


def is_shallow(folder: Path) -> bool:
    """Return whether a clone has only the newest part of its history."""
    return git_line(folder, ["rev-parse", "--is-shallow-repository"]) == "true"


def find_repository(path: str) -> Path:
    """Return the top folder of the repository that contains the folder, or the bare repository itself.

    Raises:
        UnusableSource: the folder is missing or in no repository.
    """
    folder = Path(path)
    if "\0" in path or not folder.is_dir():
        raise UnusableSource(f"REPO: {quoted(path)} is not a folder on this machine")
    top = top_folder(folder)
    if top is None:
        raise UnusableSource(f"REPO: {path} is not in a git repository")
    return top


def top_folder(folder: Path) -> Path | None:
    """Return the top of the repository that contains the folder, None without one; see `find_repository`."""
    is_bare = git_line(folder, ["rev-parse", "--is-bare-repository"])
    asked = "--absolute-git-dir" if is_bare == "true" else "--show-toplevel"
    return None if is_bare is None else Path(git_line(folder, ["rev-parse", asked]) or folder.resolve())


def read_commit_dates(folder: Path) -> dict[str, str]:
    """Return the last commit date of each Markdown file below a folder, by its path relative to it.

    The result is empty outside a repository or without git; the files' own dates are used then.
    """
    if git_line(folder, ["rev-parse", "--is-inside-work-tree"]) != "true":
        return {}
    dates: dict[str, str] = {}
    arguments = ["log", *LOG_OPTIONS, "--relative", LOG_FORMAT, "HEAD", "--", "*.md", "*.markdown"]
    try:
        with run_git(folder, arguments) as output:
            for commit in parse_log(output, sys.maxsize):
                for path in commit.files:
                    dates.setdefault(path, commit.header["date"])
    except UnusableSource:
        return dates
    return dates


@contextmanager
def run_git(folder: Path, arguments: list[str]) -> Iterator[BinaryIO]:
    """Run git in a folder and yield its output as it comes. Git is killed if the reader stops early.

    Raises:
        UnusableSource: git is not installed, or it failed; the error quotes git.
    """
    with tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(  # noqa: S603 - git, with arguments that are ours or checked
                [*SAFE_GIT, *arguments], cwd=folder, env=git_environment(),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise UnusableSource("git is not installed") from error
        with process:
            try:
                yield process.stdout  # type: ignore[misc]  # a pipe was asked for
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            complaints.seek(0)
            text = complaints.read(4_000).decode("utf-8", "replace").strip()
            raise UnusableSource(
                f"git: {text.splitlines()[0].removeprefix('fatal: ')}"
                if text
                else "git failed without a message"
            )


def git_environment() -> dict[str, str]:
    """Return the environment without variables that point git at another repository, and with prompts off."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {
        **kept,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "LC_ALL": "C",
    }


def git_line(folder: Path, arguments: list[str]) -> str | None:
    """Return git's one line of output, or None if git fails."""
    try:
        with run_git(folder, arguments) as output:
            return os.fsdecode(output.read()).removesuffix("\n")
    except UnusableSource:
        return None


def parse_log(output: BinaryIO, files_kept: int) -> Iterator[Commit]:
    """Parse the output of LOG_FORMAT with `-z --name-only`.

    An empty token starts a commit. Six fields and an empty token follow, then the commit's files; the first
    file has a line break before it.
    """
    tokens = _split_tokens(output)
    next(tokens, None)
    while (commit := _read_header(tokens, files_kept)) is not None:
        is_first = True
        for token in tokens:
            if not token:
                break
            commit.add_file(token.removeprefix("\n") if is_first else token)
            is_first = False
        yield commit


def _read_header(tokens: Iterator[str], files_kept: int) -> Commit | None:
    values = [token for _, token in zip(range(len(HEADER) + 1), tokens, strict=False)]
    if len(values) < len(HEADER):
        return None
    return Commit(dict(zip(HEADER, values, strict=False)), files_kept)


def _split_tokens(output: BinaryIO) -> Iterator[str]:
    """Yield the text between NULs, with tokens cut at about four megabytes."""
    pending = b""
    while chunk := output.read(CHUNK_BYTES):
        *whole, rest = chunk.split(b"\0")
        for part in whole:
            yield (pending + part).decode("utf-8", "replace")
            pending = b""
        if len(pending) < TOKEN_MAX_BYTES:
            pending += rest
    if pending:
        yield pending.decode("utf-8", "replace")


def _refuse_date(commit: Commit, number: int) -> Rejection | None:
    """Return a rejection that names the commit if its date is damaged. Its number alone would not help."""
    try:
        _MOMENT.validate_python(commit.header["date"])
    except ValidationError as error:
        fault = field_problems(error)[0].message
        return Rejection(number, "date", f"{fault} (commit {commit.header['sha'][:12]})")
    return None


def _commit_row(commit: Commit, number: int, source: str) -> RawRow:
    header = commit.header
    notes = compose_notes(commit)
    return RawRow(
        line=number,
        size=len(notes),
        fields={
            "title": shorten(" ".join(header["subject"].split()), limits.TITLE_MAX) or "(no subject)",
            "type": "commit",
            "date": header["date"],
            "tags": list(commit.folders),
            "notes": notes,
            "source": shorten(source, limits.SOURCE_MAX),
            "external_id": header["sha"],
            "metadata": {"author": shorten(header["author"], 200), "email": shorten(header["email"], 200)},
        },
    )


def compose_notes(commit: Commit) -> str:
    """Return the message's body, the author and the files, one paragraph each."""
    files = ", ".join(commit.files)
    if (more := commit.file_count - len(commit.files)) > 0:
        files += f" and {more:,} more"
    author = f"Author: {shorten(commit.header['author'], 200)}"
    tail = "\n\n".join([author, f"Files: {files}"] if files else [author])[: limits.NOTES_MAX // 2]
    body = shorten(commit.header["body"].strip(), limits.NOTES_MAX // 2)
    return f"{body}\n\n{tail}" if body else tail


def shorten(text: str, length: int) -> str:
    """Cut anywhere, even inside a grapheme: another cut would change records when they are imported again."""
    return text if len(text) <= length else text[: length - 1] + "…"
