"""Measure the tokens of a retry as a delta between consecutive versions of real files; apply each delta."""

import itertools
import random
import re
import tarfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.agents.filecases import git
from benchmarks.agents.patches import apply_change
from benchmarks.figures import Bar, Figure, Sample, Section, at_least, at_most
from contextopt.engine.agents.deltas import (
    DEFAULT_LIMITS,
    FULL_FILE,
    UNCUT,
    Content,
    build_delta,
    fully_sent,
    is_binary,
)
from contextopt.engine.agents.retries import Diagnosis, FailedAttempt, RetryPlan, plan_retry
from contextopt.engine.text.lexical import whole_identifier, words_of
from contextopt.engine.text.tokens import RenderedCounter, get_tokenizer

MAX_SHARE = 0.08
BAR_NAMED = 0.9
# Changes measured per source.
MAX_CHANGES = 3_000
PLAN = "Read the file\nChange it\nRun the tests"
ERROR = "FAILED tests/test_change.py::test_it - AssertionError: assert 1 == 2"
MAX_FILE_BYTES = 1_000_000
PATHOLOGICAL_LINES = 50_000
_GENERATED = re.compile(r"(?:\.lock|-lock\.(?:json|yaml)|PKG-INFO|/SOURCES\.txt)$")
_SDIST = re.compile(r"(?P<name>.+)-(?P<version>\d[^-]*)\.tar\.gz")


class Change(NamedTuple):
    """One file in two consecutive versions."""

    path: str
    old: str
    new: str


def measure_deltas(sources: Sequence[Path]) -> Section:
    """Measure on git checkouts and folders of released source packages (`NAME-VERSION.tar.gz`)."""
    counter = get_tokenizer("cl100k_base")
    changes = [change for source in sources for change in itertools.islice(find_changes(source), MAX_CHANGES)]
    deltas, fulls, cut, sent, milliseconds = [], [], [], [], []
    restored = fallbacks = 0
    named: list[bool] = []
    for change in changes:
        base, current = fully_sent({change.path: change.old}), {change.path: change.new}
        start = time.perf_counter()
        (uncut,) = build_delta(base, current, counter.count, UNCUT).changed_files
        milliseconds.append(1_000 * (time.perf_counter() - start))
        (shown,) = build_delta(base, current, counter.count, DEFAULT_LIMITS).changed_files
        if shown.is_truncated and (word := _name_in(uncut.diff, change.path)):
            error = f"NameError: name {word!r} is not defined"
            (near,) = build_delta(base, current, counter.count, DEFAULT_LIMITS, error=error).changed_files
            named.append(word in near.diff)
        restored += apply_change(uncut, change.old) == change.new
        fallbacks += uncut.diff.startswith(FULL_FILE)
        deltas.append(counter.count(uncut.diff))
        cut.append(counter.count(shown.diff))
        sent.append(_plan_by_default(change, RenderedCounter(counter)))
        fulls.append(counter.count(change.new))
    share = sum(deltas) / max(1, sum(fulls))
    figures = (
        _percent(
            "delta, uncut, of the full file's tokens", share, len(changes), at_most(MAX_SHARE, share, "≤ 8 %")
        ),
        _percent("delta at the default limits", sum(cut) / max(1, sum(fulls)), len(changes)),
        _percent(
            "a whole retry at the default limits, of the full context",
            sum(plan.delta_tokens for plan in sent) / max(1, sum(plan.full_context_tokens for plan in sent)),
            len(changes),
        ),
        _percent(
            "applied back byte for byte",
            restored / max(1, len(changes)),
            len(changes),
            at_least(1.0, restored / max(1, len(changes)), "100 %"),
        ),
        Figure(
            "cut changes that show the line which the error names",
            "share",
            len(named),
            sum(named) / max(1, len(named)),
            bar=at_least(BAR_NAMED, sum(named) / max(1, len(named)), f"≥ {BAR_NAMED:g}"),
        ),
        Figure.of("one delta", Sample(tuple(milliseconds) or (0.0,))),
        *_pathological(),
    )
    notes = (
        f"{len(changes):,} changed files; {fallbacks} were sent whole, since they are smaller than the diff.",
        "Shares are of sums over all files, so large files weigh more.",
        "Releases are compared within one series, such as 1.2.3 with 1.2.4.",
        "Lock files and packaging metadata are left out, because they are not sent to agents.",
    )
    return Section("Retry deltas", figures, notes)


def _name_in(diff: str, path: str) -> str:
    """Return a name from a random added line, the same for each run; "" if there is none."""
    added = [line for line in diff.split("\n") if line.startswith("+")]
    names = [word for line in added for word in words_of(line) if whole_identifier(word)]
    return random.Random(f"{path} {len(diff)}").choice(names) if names else ""


def _plan_by_default(change: Change, counter: RenderedCounter) -> RetryPlan:
    failed = FailedAttempt(
        f"Change {change.path}", PLAN, ERROR, Diagnosis("implementation_error", "It still fails."), 1
    )
    return plan_retry(failed, fully_sent({change.path: change.old}), {change.path: change.new}, counter)


def find_changes(source: Path) -> Iterator[Change]:
    """Yield the changes between consecutive versions, in a checkout or a folder of source packages."""
    return _git_changes(source) if (source / ".git").exists() else _release_changes(source)


def _release_changes(folder: Path) -> Iterator[Change]:
    packages = [(match, path) for path in folder.iterdir() if (match := _SDIST.fullmatch(path.name))]
    packages.sort(key=lambda package: (_project(package[0]), _version(package[0]["version"])))
    for _, releases in itertools.groupby(packages, key=lambda package: _project(package[0])):
        before: dict[str, str] = {}
        series: tuple[int, ...] = ()
        for match, path in releases:
            version, after = _version(match["version"]), _read_package(path)
            # Patch releases resemble an agent's changes between attempts; a new series does not.
            if version[:2] == series:
                yield from _changed(before, after)
            before, series = after, version[:2]


def _changed(before: dict[str, str], after: dict[str, str]) -> Iterator[Change]:
    for path in sorted(before.keys() & after.keys()):
        if before[path] != after[path] and not _GENERATED.search(path):
            yield Change(path, before[path], after[path])


def _project(match: re.Match[str]) -> str:
    return re.sub(r"[-_.]+", "-", match["name"]).lower()


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def _read_package(path: Path) -> dict[str, str]:
    """Return the package's text files by their path below the package's folder."""
    files: dict[str, str] = {}
    with tarfile.open(path) as package:
        for member in package:
            content = package.extractfile(member) if member.isfile() else None
            if content and member.size <= MAX_FILE_BYTES:
                files |= _text(member.name.partition("/")[2], content.read())
    return files


def _text(path: str, content: bytes) -> dict[str, str]:
    try:
        text: Content = content.decode()
    except UnicodeDecodeError:
        return {}
    return {} if is_binary(text) else {path: str(text)}


def _git_changes(checkout: Path) -> Iterator[Change]:
    log = git(
        checkout, "log", "--no-merges", "--diff-filter=M", "--raw", "--no-abbrev", "--no-renames",
        "--format=", "-z",
    )  # fmt: skip
    fields = log.split(b"\0")
    for header, path in zip(fields[::2], fields[1::2], strict=False):
        _, _, old, new, _ = header.decode().strip().lstrip(":").split(" ")
        texts = [_text("", git(checkout, "cat-file", "blob", blob)) for blob in (old, new)]
        if all(texts) and not _GENERATED.search(path.decode(errors="replace")):
            yield Change(path.decode(errors="replace"), texts[0][""], texts[1][""])


def _pathological() -> Iterator[Figure]:
    """Time the inputs that make other diffs quadratic."""
    unique = [f"line {number}\n" for number in range(PATHOLOGICAL_LINES)]
    two = ["x\n" if number * 7_919 % 97 % 2 else "y\n" for number in range(PATHOLOGICAL_LINES)]
    cases = {
        "reversed": (unique, unique[::-1]),
        "two lines repeated": (two, two[::-1]),
        "sorted": (unique, sorted(unique)),
    }
    for name, (old, new) in cases.items():
        start = time.perf_counter()
        build_delta(fully_sent({"a": "".join(old)}), {"a": "".join(new)}, len, UNCUT)
        seconds = time.perf_counter() - start
        yield Figure(
            f"{PATHOLOGICAL_LINES:,} lines, {name}", "s", 1, seconds, bar=at_most(5.0, seconds, "≤ 5 s")
        )


def _percent(what: str, share: float, runs: int, bar: Bar | None = None) -> Figure:
    return Figure(what, "%", runs, 100 * share, bar=bar)
