"""Candidates for the sections of a step: records, memories, and parts of a repository."""

from collections import Counter as Multiset
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from contextopt.assemblies.assemble import decide_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.models import EntryJson
from contextopt.assemblies.results import AssemblyResult
from contextopt.assemblies.tokenfactors import CountedIn
from contextopt.engine.agents.contexts import ContextFile, WholeText
from contextopt.engine.agents.deltas import SentFile
from contextopt.engine.agents.steps import NAMED_DROPPED, LeftOut
from contextopt.engine.budget import OVER_BUDGET
from contextopt.engine.code.graph.parsing import decode
from contextopt.engine.code.packing import FULL, PATH
from contextopt.engine.ranking import MAX_PART
from contextopt.engine.settings import MAX_PART_TOKENS
from contextopt.engine.text.promptpassages import shortened
from contextopt.engine.text.quoting import marked_block
from contextopt.engine.text.tokens import DEFAULT_ENCODING, Counter
from contextopt.engine.values import NOTHING_RELEVANT
from contextopt.inputs import QUERY_MAX
from contextopt.people.models import Team
from contextopt.repositories.graphs import join_manifests, outline_tree, read_manifests
from contextopt.repositories.inputs import LIMIT_MAX, TASK_MAX, RelevantIn
from contextopt.repositories.models import Repository, RepositoryFile
from contextopt.repositories.relevantfiles import rank_repository
from contextopt.search.hybrid import Hit, search
from contextopt.search.registry import SearchFilters
from contextopt.search.vectors.fill import ensure_embedded
from memory.memories.memories import EMBEDDED_AT_ONCE, SEARCHABLE, prepare_memory_query
from memory.memories.models import STRATEGY, Memory

LOW_RELEVANCE = "low_relevance"


@dataclass(frozen=True, slots=True)
class Found:
    """Items with the best first. `names` has the id of each."""

    items: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    left_out: LeftOut = field(default_factory=LeftOut)

    def after(self, items: tuple[Any, ...], names: Iterable[str]) -> "Found":
        """Return these items after those that the caller gave."""
        return Found((*items, *self.items), (*names, *self.names), self.left_out)


def leave_out(dropped: Iterable[tuple[str, str]]) -> LeftOut:
    """Return dropped items, given as id and reason, with all of them counted and the best named."""
    named = list(dropped)
    return LeftOut(tuple(named[:NAMED_DROPPED]), dict(Multiset(reason for _, reason in named)))


MEMORIES_MAX = 40
SIMILARITY_NEEDED = 0.3
"""A memory or record that shares no word with the task needs this cosine similarity."""


def find_memories(team: Team, *, task: str, repository: str) -> Found:
    """Return the memories that suit the task, the best first. Strategies are left to the hint.

    A memory of another repository is no candidate. Without a repository, all of the team's are.
    """
    ensure_embedded(SEARCHABLE, team.pk, limit=EMBEDDED_AT_ONCE)
    allowed = (("repository", (repository, "")),) if repository else ()
    hits = search(
        SEARCHABLE,
        team.pk,
        prepare_memory_query(team.pk, task),
        filters=SearchFilters(without_types=(STRATEGY,), conditions=allowed),
        limit=MEMORIES_MAX,
    )
    memories = Memory.objects.live().filter(team=team).in_bulk([hit.id for hit in hits])
    candidates = [hit for hit in hits if hit.id in memories]
    kept = [hit for hit in candidates if _is_relevant(hit)]
    return Found(
        items=tuple(_item(memories[hit.id]) for hit in kept),
        names=tuple(_name(hit) for hit in kept),
        left_out=leave_out((_name(hit), LOW_RELEVANCE) for hit in candidates if not _is_relevant(hit)),
    )


def _is_relevant(hit: Hit) -> bool:
    return hit.lexical > 0 or (hit.similarity is not None and hit.similarity >= SIMILARITY_NEEDED)


def _name(hit: Hit) -> str:
    return f"memory {hit.id}"


def _item(memory: Memory) -> dict[str, Any]:
    """Return the memory as an item of a context. One from outside is fenced there as data."""
    title = {"title": memory.title} if memory.title else {}
    return {"type": memory.memory_type, **title, "content": memory.content, "trust_level": memory.trust_level}


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """A space's records as items in the order of the text. The first item also has the space's header."""

    found: Found
    decision: AssemblyResult
    irrelevant: frozenset[int] = frozenset()

    def entries(self, sent: Collection[str]) -> list[EntryJson]:
        """Return the ledger of the records, of which those named in `sent` are in the step's text."""
        return [
            entry
            if not entry["kept"] or record_name(entry["id"]) in sent
            else {**entry, "kept": False, "reason": self._reason(entry["id"])}
            for entry in self.decision.entries
        ]

    def _reason(self, record_id: int) -> str:
        return LOW_RELEVANCE if record_id in self.irrelevant else OVER_BUDGET


def record_name(record_id: int) -> str:
    return f"record {record_id}"


def find_records(
    *,
    team_id: int,
    space: str,
    task: str,
    tokens: int,
    as_of: datetime | None,
    counted: CountedIn,
    actor: str,
) -> FoundRecords:
    """Choose the records of the space for the task within a number of tokens.

    Records that do not match the task are left out: a space answers with its best, whatever they are about.

    Raises:
        NotFound: the team has no such space.
        EngineError: the space's settings leave no room.
    """
    request = AssemblyIn(
        space=space,
        query=shortened(task, QUERY_MAX),
        context_tokens=min(tokens, MAX_PART_TOKENS),
        as_of=as_of,
        encoding=counted.encoding or (None if counted.model else DEFAULT_ENCODING),
        model=counted.model,
    )
    result = decide_space(team_id=team_id, request=request, actor=actor)
    irrelevant = frozenset(_irrelevant(result))
    lines = result.text.splitlines(keepends=True)
    split = len(lines) - len(result.outcome.order)
    shown = {
        record_id: line
        for record_id, line in zip(result.outcome.order, lines[split:], strict=True)
        if record_id not in irrelevant
    }
    header, texts = "".join(lines[:split]), list(shown.values())
    dropped = [(record_name(entry["id"]), entry["reason"]) for entry in result.entries if not entry["kept"]]
    dropped = [*((record_name(each), LOW_RELEVANCE) for each in sorted(irrelevant)), *dropped]
    counts = Multiset(result.stats.dropped_by_reason) + Multiset({LOW_RELEVANCE: len(irrelevant)})
    found = Found(
        items=(WholeText(header + texts[0]), *texts[1:]) if texts else (),
        names=tuple(map(record_name, shown)),
        left_out=LeftOut(tuple(dropped), dict(counts)),
    )
    return FoundRecords(found, result, irrelevant)


def _irrelevant(result: AssemblyResult) -> Iterator[int]:
    """Yield the chosen records that match neither by words nor by meaning, or all if nothing is relevant.

    A pinned record always stays. So does the neighbour of a match in its thread.
    """
    is_any = all(warning.code != NOTHING_RELEVANT for warning in result.warnings)
    for entry in result.entries:
        if entry["kept"] and not entry["pinned"] and not (is_any and _matches(entry["parts"])):
            yield entry["id"]


def _matches(parts: Mapping[str, float]) -> bool:
    least = SIMILARITY_NEEDED * MAX_PART
    return parts.get("lexical", 0) > 0 or any(
        parts.get(name, 0) >= least for name in ("semantic", "neighbour")
    )


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
    repository: Repository, *, task: str, tokens: int, counted: CountedIn, skipped: Skipped
) -> FoundFiles:
    """Return the files that the task needs, the best first, as much of each as its rank is worth.

    Raises:
        Conflict: the repository changes faster than it can be read.
    """
    budget = min(int(tokens * UNMARKED), MAX_PART_TOKENS)
    request = RelevantIn(
        task=task[:TASK_MAX],
        budget=budget,
        limit=LIMIT_MAX,
        encoding=counted.encoding,
        model=counted.model,
    )
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
