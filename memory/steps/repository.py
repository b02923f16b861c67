"""The parts of a repository that a step is sent: its tree, its manifest, and the files for the task."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from contextopt.engine.agents.contexts import ContextFile
from contextopt.engine.agents.deltas import SentFile
from contextopt.engine.agents.steps import LeftOut
from contextopt.engine.code.graph import decode
from contextopt.engine.code.packing import FULL, PATH
from contextopt.engine.prompts.config import MAX_PART_TOKENS
from contextopt.engine.prompts.truncation import OVER_BUDGET
from contextopt.engine.text.counters import Counter
from contextopt.engine.text.marks import marked_block
from contextopt.models import Repository, RepositoryFile
from contextopt.repositories.inputs import LIMIT_MAX, TASK_MAX, RelevantIn
from contextopt.repositories.outlines import join_manifests, outline_tree, read_manifests
from contextopt.repositories.ranking import rank_repository
from memory.steps.found import Found, leave_out

IN_RETRY = "in_retry"
SENT_BEFORE = "sent_before"
"""The receiver has a newer version of the file than the index."""
CLOSED_FOLDER = "closed_folder"
# Marks before lines take about a tenth of a file's tokens.
UNMARKED = 0.9


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Files as shown. `partial` says by path how a file is shown that is not whole."""

    found: Found = field(default_factory=Found)
    partial: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Skipped:
    """Files that are not sent again: those of the caller, in the retry, or known in a newer version.

    The caller's own files are not candidates, so the ledger does not name them twice.
    """

    given: frozenset[str] = frozenset()
    in_retry: frozenset[str] = frozenset()
    known: Mapping[str, SentFile] = field(default_factory=dict)


def find_tree(repository: Repository, tokens: int, counter: Counter) -> tuple[str, LeftOut]:
    """Return the tree within the tokens, and how many files are in closed folders."""
    tree = outline_tree(repository, lambda text: counter.count_text(marked_block(text)) <= tokens)
    return tree.text, LeftOut(counts={CLOSED_FOLDER: tree.closed} if tree.closed else {})


def find_manifest(repository: Repository) -> tuple[str, str]:
    """Return the text of the package manifests, and their paths."""
    manifests = read_manifests(repository)
    return (join_manifests(manifests), ", ".join(path for path, _ in manifests)) if manifests else ("", "")


def find_files(
    repository: Repository, *, task: str, tokens: int, encoding: str, skipped: Skipped
) -> FoundFiles:
    """Return the files that the task needs, the best first, as much of each as its rank is worth.

    Raises:
        Conflict: the repository changes faster than it can be read.
    """
    budget = min(int(tokens * UNMARKED), MAX_PART_TOKENS)
    request = RelevantIn(task=task[:TASK_MAX], budget=budget, limit=LIMIT_MAX, encoding=encoding)
    relevant = rank_repository(repository, request)
    modes = {file.path: file.mode for file in relevant.packed.files if file.mode != PATH}
    ours = [(path, text) for path, text in relevant.contents if path not in skipped.given]
    reasons = dict(_reasons(repository, [path for path, _ in ours], skipped))
    shown = [ContextFile(path, text) for path, text in ours if path not in reasons]
    unshown = [(file.path, OVER_BUDGET) for file in relevant.ranked if file.path not in modes]
    return FoundFiles(
        Found(
            items=tuple(shown),
            names=tuple(file.path for file in shown),
            left_out=leave_out([*reasons.items(), *unshown]),
        ),
        {path: mode for path, mode in modes.items() if mode != FULL},
    )


def _reasons(repository: Repository, paths: list[str], skipped: Skipped) -> Iterator[tuple[str, str]]:
    """Yield the files that are left out, each with the reason."""
    known = {path: skipped.known[path].content for path in paths if path in skipped.known}
    rows = RepositoryFile.objects.filter(repository=repository, path__in=known, blob__isnull=False)
    indexed = {path: decode(bytes(content)) for path, content in rows.values_list("path", "blob__content")}
    for path in paths:
        content = known.get(path)
        if path in skipped.in_retry:
            yield path, IN_RETRY
        # Files are shown without blank lines at their end.
        elif isinstance(content, str) and content.rstrip() != indexed.get(path, "").rstrip():
            yield path, SENT_BEFORE
