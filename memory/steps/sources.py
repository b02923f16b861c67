"""Gathers what a step may be sent: the caller's own context first, then what is found for the task."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from contextopt.agents.standingdocuments import StandingDocument
from contextopt.engine.agents import steps
from contextopt.engine.agents.composition import raise_budget, share_out
from contextopt.engine.agents.contexts import AgentContext, ContextFile, Item
from contextopt.engine.agents.steps import HANDOFF, NOT_IN_PHASE, NOT_IN_RETRY, Candidates, LeftOut, Step
from contextopt.engine.values import BUDGET_TOO_SMALL, NOT_INDEXED, ContextWarning
from memory.steps.candidates import (
    Found,
    FoundFiles,
    FoundRecords,
    Skipped,
    find_files,
    find_manifest,
    find_memories,
    find_records,
    find_tree,
)
from memory.steps.received import Received, Seen, load_seen, receive
from memory.steps.subject import Asked
from memory.strategies.hints import look_up_hint
from memory.strategies.matches import Found as FoundStrategy

PLANNING = "planning"


@dataclass(frozen=True, slots=True)
class Gathered:
    """All candidates of a step, and where they come from."""

    candidates: Candidates
    records: FoundRecords | None
    received: Received
    hint: FoundStrategy | None
    warnings: tuple[ContextWarning, ...]


@dataclass(slots=True)
class _Fields:
    """The fields of the context so far, with the ids of their items and what was left out."""

    context: AgentContext
    names: dict[str, tuple[str, ...]]
    left_out: dict[str, LeftOut] = field(default_factory=dict)

    @classmethod
    def of(cls, given: AgentContext) -> Self:
        """Return the caller's own fields."""
        lists = {name: getattr(given, name) for name in ("files", "memories", "docs", "tools")}
        return cls(
            given,
            {
                name: tuple(_own_name(name, place, item) for place, item in enumerate(items))
                for name, items in lists.items()
            },
        )

    def put(self, name: str, value: Any, names: tuple[str, ...], left_out: LeftOut) -> None:
        self.context = replace(self.context, **{name: value})
        self.names[name], self.left_out[name] = names, left_out

    def append(self, name: str, found: Found) -> None:
        """Add items after the caller's own."""
        found = found.after(getattr(self.context, name), self.names[name])
        self.put(name, found.items, found.names, found.left_out)


def gather(asked: Asked) -> Gathered:
    """Look up what the phase keeps, and nothing else.

    Raises:
        NotFound: the team has no such space.
        Conflict: the repository changes faster than it can be read.
        EngineError: the space's settings leave no room.
    """
    hint, received = _find_hint(asked), receive(asked.task, asked.link.value.receives, asked.actor)
    seen = load_seen(asked.task, asked.data.receiver) if asked.sends_changes else Seen()
    version = received.version
    is_handed = version is not None and (version["phase"], version["version"]) in seen.handoffs
    fixed = Step(
        standing=tuple(_standing(asked, seen)),
        handoff=None if is_handed else received.value,
        retry=asked.retry,
        hint=hint.text if hint else "",
    )
    room = max(asked.budget - asked.counter.count(fixed), 0)
    fields = _Fields.of(replace(asked.given, task=asked.task_text))
    if fixed.handoff:
        fields.left_out[HANDOFF] = received.left_out
    kept = set(asked.fields)
    _add_small(asked, fields, kept, room)
    records = _add_records(asked, fields, kept, room)
    files = _add_files(asked, fields, kept, room)
    return Gathered(
        Candidates(
            replace(fixed, context=fields.context),
            names=fields.names,
            left_out=fields.left_out,
            partial=files.partial,
            unsent=NOT_IN_RETRY if asked.sends_changes else NOT_IN_PHASE,
        ),
        records,
        received,
        hint,
        (
            *(_warnings_of(asked, records) if records else ()),
            *(() if is_handed else received.warnings),
            *_warn(asked, kept),
        ),
    )


def _standing(asked: Asked, seen: Seen) -> Iterator[steps.StandingDocument]:
    """Yield the repository's documents, except those that the receiver has already in this version."""
    if not asked.repository_name:
        return
    for document in StandingDocument.objects.of(asked.team.pk, asked.repository_name):
        sent_at = seen.documents.get(document.title)
        if sent_at is None or document.updated_at > sent_at:
            yield document.to_value()


def _find_hint(asked: Asked) -> FoundStrategy | None:
    """Return a strategy before planning, and only then."""
    if asked.profile.value.phase != PLANNING or asked.sends_changes:
        return None
    return look_up_hint(asked.team, task=asked.task.description, repository=asked.repository_name)


def _add_small(asked: Asked, fields: _Fields, kept: set[str], room: int) -> None:
    """Add memories, manifest and tree, which do not depend on the other fields."""
    if "memories" in kept:
        fields.append(
            "memories",
            find_memories(asked.team, task=asked.task.description, repository=asked.repository_name),
        )
    if asked.repository is None:
        return
    if "package_manifest" in kept and not fields.context.package_manifest:
        text, paths = find_manifest(asked.repository)
        if text:
            fields.put("package_manifest", text, (paths,), LeftOut())
    if "tree" in kept and not fields.context.tree:
        text, left_out = find_tree(asked.repository, _share(asked, fields, kept, room, "tree"), asked.counter)
        fields.put("tree", text, ("tree",), left_out)


def _add_records(asked: Asked, fields: _Fields, kept: set[str], room: int) -> FoundRecords | None:
    if asked.data.space is None or "docs" not in kept:
        return None
    records = find_records(
        team_id=asked.team.pk,
        space=asked.data.space,
        task=asked.task.description,
        tokens=_share(asked, fields, kept, room, "docs"),
        as_of=asked.data.as_of,
        counted=asked.data,
        actor=asked.actor,
    )
    fields.append("docs", records.found)
    return records


def _add_files(asked: Asked, fields: _Fields, kept: set[str], room: int) -> FoundFiles:
    """Add the files that the task needs, in the room that all other fields leave."""
    if asked.repository is None or "files" not in kept:
        return FoundFiles()
    changed = asked.retry.changed_files if asked.retry else ()
    files = find_files(
        asked.repository,
        task=asked.task.description,
        tokens=_share(asked, fields, kept, room, "files"),
        counted=asked.data,
        skipped=Skipped(
            given=frozenset(file.path for file in fields.context.files),
            in_retry=frozenset(file.path for file in changed),
            known=asked.known,
        ),
    )
    fields.append("files", files.found)
    return files


def _share(asked: Asked, fields: _Fields, kept: set[str], room: int, name: str) -> int:
    """Return a field's share of the room if it, like all fields not looked up yet, uses all that it gets."""
    wants = {each: asked.counter.count(fields.context.keeping([each])) for each in kept}
    open_fields = {name} | ({"docs"} if name == "tree" and asked.data.space else set())
    if name != "files" and asked.repository is not None:
        open_fields |= {"files"} & kept
    wants |= dict.fromkeys(open_fields & kept, room)
    return share_out(room, wants)[name]


def _own_name(field: str, place: int, item: ContextFile | Item) -> str:
    if isinstance(item, ContextFile):
        return item.path
    own = item.get("id") if isinstance(item, Mapping) else None
    return f"{field}.{place}" if own is None else str(own)


def _warnings_of(asked: Asked, records: FoundRecords) -> Iterator[ContextWarning]:
    """Yield the space's warnings. Its budget is a share of the step's, so the remedy raises the step's."""
    remedy = raise_budget(asked.budget, asked.profile.value.budget_tokens)
    for warning in records.decision.warnings:
        yield replace(warning, remedy=remedy) if warning.code == BUDGET_TOO_SMALL else warning


def _warn(asked: Asked, kept: set[str]) -> Iterator[ContextWarning]:
    if asked.repository_name and asked.repository is None and kept & {"tree", "files", "package_manifest"}:
        yield ContextWarning(
            NOT_INDEXED,
            f"The repository {asked.repository_name!r:.80} is not indexed, so none of its files are found.",
        )
