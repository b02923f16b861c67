"""Real tasks with known answers: a commit's message, and the files that it changed.

There are three sources. In a git checkout, the files for a commit are searched at its parent. With texts of
issues, these take the place of the messages of the commits that fixed them. With a listing of a repository's
commits (JSON: sha, date, subject, body, files, and the commit of each release), the files for the commits
after a release are searched in that release's source package.
"""

import difflib
import io
import json
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from contextopt.engine.code.filescores import Change
from contextopt.engine.code.graph.parsing import decode

TRAIN_SHARE = 0.6
MAX_FILES_CHANGED = 20
MIN_HISTORY = 100
MIN_COMMITS_AFTER = 20

_TRAILER = re.compile(r"^(co-authored-by|signed-off-by|reviewed-by):.*$", re.IGNORECASE | re.MULTILINE)
_NO_TASK = re.compile(r"Merge |Bump version|Release |Version ")
_SEPARATOR = "\x1e"


@dataclass(frozen=True, slots=True)
class Case:
    """A task and its answer. `lines` holds the changed lines of a file, if known."""

    query: str
    now: datetime
    changed: tuple[str, ...]
    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files at one moment, the commits before, and the tasks after. `part` is "train" or "test"."""

    repository: str
    name: str
    part: str
    contents: Mapping[str, bytes]
    history: tuple[Change, ...]
    cases: tuple[Case, ...]


def from_releases(listing: Path, packages: Path, *, releases: int, cases: int) -> Iterator[Snapshot]:
    """Yield a snapshot for each of some releases, oldest first. The first three fifths are for training.

    Missing source packages are downloaded into `packages`.
    """
    data = json.loads(listing.read_text())
    commits: list[dict[str, Any]] = data["commits"]
    chosen = _spread(_releases(data), releases)
    snapshots = [_contents(_package(packages, data["repository"], name)) for name, _, _ in chosen]
    for number, (name, position, following) in enumerate(chosen):
        later = snapshots[number + 1] if number + 1 < len(chosen) else {}
        until = chosen[number + 1][1] if number + 1 < len(chosen) else 0
        once = Counter(file["path"] for commit in commits[until:position] for file in commit["files"])
        diffs = _Diffs(snapshots[number], later, {path for path, count in once.items() if count == 1})
        tasks = (
            _listed_case(commit, snapshots[number], diffs)
            for commit in reversed(commits[following + 1 : position])
        )
        yield Snapshot(
            repository=data["repository"],
            name=name,
            part="train" if number < TRAIN_SHARE * len(chosen) else "test",
            contents=snapshots[number],
            history=tuple(_change(commit) for commit in commits[position:]),
            cases=tuple(_spread([task for task in tasks if task], cases)),
        )


def from_checkout(repository: Path, *, cases: int) -> Iterator[Snapshot]:
    """Yield a snapshot for each of some commits: the files at its parent, and the history before."""
    commits = list(_log(repository))
    eligible = [
        number
        for number, commit in enumerate(commits[MIN_HISTORY:], MIN_HISTORY)
        if 0 < len(commit["files"]) <= MAX_FILES_CHANGED and not _NO_TASK.match(commit["subject"])
    ]
    chosen = _spread(eligible, cases)
    for order, number in enumerate(chosen):
        part = "train" if order < TRAIN_SHARE * len(chosen) else "test"
        yield from _snapshots_before(repository, commits, number, part)


def from_issues(listing: Path, repositories: Sequence[Path]) -> Iterator[Snapshot]:
    """Yield a snapshot for each issue: the files before the commit that fixed it, and its text as the task.

    The list is JSON: repository (the name of the checkout), number, commit and text, which is the title, a
    blank line and the opening post. All issues are for testing.
    """
    issues: list[dict[str, Any]] = json.loads(listing.read_text())
    for repository in repositories:
        commits = list(_log(repository))
        places = {commit["sha"]: place for place, commit in enumerate(commits)}
        for issue in issues:
            if issue["repository"] == _name(repository):
                number = places[issue["commit"]]
                for snapshot in _snapshots_before(repository, commits, number, "test"):
                    yield replace(
                        snapshot,
                        name=f"#{issue['number']}",
                        cases=tuple(replace(case, query=issue["text"]) for case in snapshot.cases),
                    )


def _snapshots_before(
    repository: Path, commits: Sequence[dict[str, Any]], number: int, part: str
) -> Iterator[Snapshot]:
    """Yield the files at a commit's parent with the commit as the only case, if it is suitable."""
    commit = commits[number]
    contents = _tree(repository, f"{commit['sha']}^")
    diffs = _Diffs(contents, _tree(repository, commit["sha"]), {file["path"] for file in commit["files"]})
    case = _listed_case(commit, contents, diffs)
    if case is not None:
        yield Snapshot(
            repository=_name(repository),
            name=commit["sha"],
            part=part,
            contents=contents,
            history=tuple(_change(earlier) for earlier in commits[:number]),
            cases=(case,),
        )


def _name(repository: Path) -> str:
    return repository.parent.name if repository.name == "repo" else repository.name


def _spread[T](items: Sequence[T], most: int) -> list[T]:
    """Take at most this many items, spread evenly from the first to the last."""
    if len(items) <= most or most < 2:
        return list(items[:most])
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def _releases(data: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Return (name, place of its commit, place of the next release's commit), oldest first.

    Commits are listed newest first. A release is useful if enough happened before and after it.
    """
    places = {commit["sha"]: place for place, commit in enumerate(data["commits"])}
    tags = sorted(
        (
            (places[tag["commit"]], name)
            for name, tag in data["tags"].items()
            if tag["commit"] in places and not name.endswith(".x")
        ),
        reverse=True,
    )
    following = [place for place, _ in tags[1:]] + [-1]
    return [
        (name, place, after)
        for (place, name), after in zip(tags, following, strict=True)
        if place - after > MIN_COMMITS_AFTER and len(data["commits"]) - place >= MIN_HISTORY
    ]


def _listed_case(commit: dict[str, Any], contents: Mapping[str, bytes], diffs: "_Diffs") -> Case | None:
    if len(commit["files"]) > MAX_FILES_CHANGED or _NO_TASK.match(commit["subject"]):
        return None
    changed = tuple(
        file["path"] for file in commit["files"] if file["path"] in contents and file["added"] is not None
    )
    if not changed:
        return None
    lines = {path: lines for path in changed if (lines := diffs.lines(path))}
    return Case(_message(commit), datetime.fromisoformat(commit["date"]), changed, lines)


def _message(commit: dict[str, Any]) -> str:
    return f"{commit['subject']}\n\n{_TRAILER.sub('', commit['body'])}".strip()


def _change(commit: dict[str, Any]) -> Change:
    paths = tuple(file["path"] for file in commit["files"])
    return Change(datetime.fromisoformat(commit["date"]), _message(commit), paths)


@dataclass(frozen=True, slots=True)
class _Diffs:
    """The lines of a file that changed from one snapshot to the next, if a single commit changed the file."""

    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    changed_once: set[str]

    def lines(self, path: str) -> tuple[int, ...]:
        if path not in self.changed_once or path not in self.after:
            return ()
        old, new = decode(self.before[path]).split("\n"), decode(self.after[path]).split("\n")
        codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        spans = (
            range(start + 1, max(end, start + 1) + 1) for tag, start, end, _, _ in codes if tag != "equal"
        )
        # The last line with content stands for lines added at the end.
        last = max((number for number, line in enumerate(old, 1) if line.strip()), default=1)
        return tuple(sorted({min(line, last) for span in spans for line in span}))


def _package(packages: Path, repository: str, version: str) -> Path:
    name = _PACKAGE_NAMES.get(repository, repository)
    wanted = re.compile(rf"{name}-{re.escape(version)}\.(tar\.gz|zip)", re.IGNORECASE)
    for _ in range(2):
        found = next((path for path in sorted(packages.glob("*")) if wanted.fullmatch(path.name)), None)
        if found:
            return found
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", ":all:", "--no-deps"]
        subprocess.run([*pip, "-d", str(packages), f"{name}=={version}"], check=True)
    raise FileNotFoundError(f"{name} {version} has no source package")


_PACKAGE_NAMES = {"django-rest-framework": "djangorestframework"}


def _contents(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return _members(tar, strip=1)


def _members(tar: tarfile.TarFile, strip: int) -> dict[str, bytes]:
    contents = {}
    for member in tar:
        path = "/".join(member.name.split("/")[strip:])
        if member.isfile() and path and (data := tar.extractfile(member)):
            contents[path] = data.read()
    return contents


def _tree(repository: Path, commit: str) -> dict[str, bytes]:
    archive = git(repository, "archive", "--format=tar", commit)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return _members(tar, strip=0)


def _log(repository: Path) -> Iterator[dict[str, Any]]:
    """Yield the commits, oldest first, except merges and the first one."""
    form = f"--format={_SEPARATOR}%H%n%cI%n%s%n%b%x1f"
    text = git(repository, "log", "--no-merges", "--reverse", "--numstat", "--no-renames", form).decode(
        "utf-8", "replace"
    )
    for entry in text.split(_SEPARATOR)[2:]:
        head, _, listing = entry.partition("\x1f")
        sha, date, subject, body = [*head.split("\n", 3), ""][:4]
        rows = [row.split("\t", 2) for row in listing.split("\n") if row.count("\t") >= 2]
        files = [{"path": path, "added": None if added == "-" else int(added)} for added, _, path in rows]
        yield {"sha": sha, "date": date, "subject": subject, "body": body, "files": files}


def git(repository: Path, *arguments: str) -> bytes:
    """Return the output of a git command."""
    command = ["git", "-C", str(repository), "-c", "core.quotepath=off", *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout
