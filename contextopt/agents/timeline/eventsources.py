"""Reads the events of a task in order of time. Each kind of event has one source."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import models
from django.db.models import F, Max, Q
from django.db.models.functions import Coalesce
from pydantic import TypeAdapter

from contextopt.agents.completions import Completion
from contextopt.agents.handoffs.models import Finding, PhaseCompression
from contextopt.agents.models import Action, Attempt, HandoffPhase, Task
from contextopt.agents.retries import FULL_REPLAN
from contextopt.agents.timeline.events import Event, EventKind
from contextopt.assemblies.models import BASELINES, Assembly, Kind
from contextopt.engine.agents.contexts import FIELDS
from contextopt.engine.agents.logmarkers import classify
from contextopt.engine.text.cleaning import flatten_to
from contextopt.engine.wording import listed, plural
from contextopt.inputs import BigInt
from contextopt.paging import Keyset, MomentKey

ERROR_SHOWN_CHARS = 240
FIELD_WORDS = {"package_manifest": "manifest", "tree_paths": "paths"}
# One and several of each field that has items.
ITEM_WORDS = {
    "files": ("file", "files"),
    "memories": ("memory", "memories"),
    "docs": ("document", "documents"),
    "tools": ("tool", "tools"),
}


def context_note(ledger: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """Return which fields of the context were kept, or how they were trimmed."""
    if cuts := ledger.get("trimmed"):
        parts = [_cut(cut) for cut in cuts]
        return f"Trimmed to {config['budget_tokens']:,} tokens: {listed(parts)}"
    if "sections" in ledger:
        held = [section["name"] for section in ledger["sections"] if section["kept"]]
        words = listed(FIELD_WORDS.get(name, name.replace("_", " ")) for name in held)
        return words.capitalize() if held else "Nothing"
    kept = config.get("fields")
    if kept is None:
        return ""
    if not kept:
        return "No fields kept"
    if set(kept) >= set(FIELDS):
        return "All fields"
    return f"{listed(FIELD_WORDS.get(name, name) for name in kept)} only".capitalize()


def _cut(cut: Mapping[str, Any]) -> str:
    words = ITEM_WORDS.get(cut["field"])
    if words and cut["dropped_items"]:
        return f"{plural(cut['dropped_items'], *words)} left out"
    return f"{FIELD_WORDS.get(cut['field'], cut['field'].replace('_', ' '))} shortened"


def error_line(text: str) -> str:
    """Return the first of the lines that report an error most clearly, cut to fit one line."""
    return flatten_to(max(text.splitlines(), key=classify, default=""), ERROR_SHOWN_CHARS)


def attempt_note(attempt: Attempt) -> str:
    """Return what the retry holds, or why there is none."""
    if attempt.assembly and attempt.assembly.kind == Kind.AGENT:
        return f"Part of the context of assembly {attempt.assembly_id}"
    if attempt.action == "wait":
        return "The plan is repeated unchanged. Waiting is not a saving."
    if attempt.action == "stop":
        return "The task is impossible. Stopping is not a saving."
    return f"{plural(attempt.changed_files, 'changed file')} sent to {attempt.receiver}"


def learned_note(learned: Mapping[str, Any] | None) -> str:
    """Return what was learned from the completion."""
    if learned is None:
        return "Its lessons are not stored yet"
    if learned["strategy_id"]:
        return "Remembered as a strategy"
    reasons = [each["reason"] for each in learned["not_stored"] if each["memory_type"] == "strategy"]
    return f"No strategy: {reasons[0]}" if reasons else ""


BY_TIME = Keyset(
    "event", ("at", "rank", "number"), is_descending=False, key=TypeAdapter(tuple[MomentKey, BigInt, BigInt])
)


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events, oldest first, and the cursor of the events after them, or None if there are none."""

    events: tuple[Event, ...]
    next_cursor: str | None


def read_events(task: Task, *, kinds: frozenset[str], cursor: str | None, limit: int) -> EventPage:
    """Return the task's events of these kinds after a cursor, oldest first. Each kind takes one query.

    Raises:
        InvalidInput: the cursor is not one of this list.
    """
    key = BY_TIME.decode(cursor) if cursor else None
    found = [event for kind in EventKind if kind in kinds for event in _read(task, kind, key, limit + 1)]
    events = sorted(found, key=lambda event: event.key)
    shown = tuple(events[:limit])
    return EventPage(shown, BY_TIME.encode(shown[-1]) if len(events) > limit else None)


def _read(task: Task, kind: EventKind, key: Any, limit: int) -> Iterator[Event]:
    rows, build = _SOURCES[kind](task)
    if key is not None:
        moment, rank, number = key
        after = Q(at__gte=moment) if kind.rank > rank else Q(at__gt=moment)
        if kind.rank == rank:
            after |= Q(at=moment, place__gt=number)
        rows = rows.filter(after)
    for row in rows.order_by("at", "place")[:limit]:
        yield build(row, partial(Event, row.at, kind, row.place, task.phase_at(row.at)))


type MakeEvent = Callable[..., Event]
"""Makes the event of a row, whose time, kind, number and phase are known."""
type Source = tuple[models.QuerySet[Any], Callable[[Any, MakeEvent], Event]]

# Rows are dated by their assemblies, so that the timeline and the account agree on the phases.
AT_ASSEMBLY = Coalesce("assembly__created_at", "created_at")
SHARED = {Kind.HINT, Kind.RETRY, Kind.HANDOFF}


def _sent(task: Task) -> models.QuerySet[Assembly]:
    """Return what was sent for the task, with ledgers and without texts."""
    rows = Assembly.objects.filter(task=task).annotate(at=F("created_at"), place=F("pk"))
    texts = ("payload__text", "payload__baseline_text", "payload__givens", "payload__record_ids")
    return rows.select_related("payload").defer(*texts)


def _hints(task: Task) -> Source:
    def build(row: Assembly, make: MakeEvent) -> Event:
        ledger = row.payload.ledger
        return make(
            title="Strategy hint given",
            note=f"Similarity {ledger['similarity']:.2f}",
            assembly=row,
            baseline=BASELINES[Kind.HINT],
            memory_id=ledger["memory_id"],
        )

    return _sent(task).filter(kind=Kind.HINT), build


def _contexts(task: Task) -> Source:
    def build(row: Assembly, make: MakeEvent) -> Event:
        return make(
            title="Context sent",
            label=row.phase,
            note=context_note(row.payload.ledger, row.payload.config),
            assembly=row,
            baseline=row.payload.ledger.get("baseline", BASELINES[Kind(row.kind)]),
        )

    return _sent(task).exclude(kind__in=SHARED), build


def _findings(task: Task) -> Source:
    def build(row: Finding, make: MakeEvent) -> Event:
        marks = [row.category.replace("_", " ")]
        marks += ["critical"] * row.is_tagged_critical + ["decision open"] * row.is_open
        marks += [f"of {row.phase}"] * (row.phase != task.phase_at(row.created_at))
        return make(
            title=f"{row.key} added",
            note=", ".join(marks),
            finding=row.key,
        )

    rows = Finding.objects.filter(task=task).defer("content")
    return rows.annotate(at=F("created_at"), place=F("number")), build


def _decisions(task: Task) -> Source:
    def build(row: Finding, make: MakeEvent) -> Event:
        return make(
            title=f"Decision on {row.key} resolved",
            note=f"By {row.resolved_by}" if row.resolved_by else "",
            text=row.resolution,
            finding=row.key,
        )

    rows = Finding.objects.filter(task=task, resolved_at__isnull=False).defer("content")
    return rows.annotate(at=F("resolved_at"), place=F("number")), build


def _handoffs(task: Task) -> Source:
    made = PhaseCompression.objects.filter(task=task)
    last = dict(made.filter(made_in="").values_list("phase").annotate(Max("version")).order_by())

    def build(row: Any, make: MakeEvent) -> Event:
        return make(
            title=_handoff_title(task, row, is_last=last.get(row.phase) == row.version),
            note=f"Brief of {row.brief_tokens:,} tokens, {plural(len(row.critical), 'critical finding')}",
            label="" if row.assembly else "brief in progress",
            assembly=row.assembly,
            baseline=BASELINES[Kind.HANDOFF],
        )

    rows = made.defer("discarded", "settings", "warnings", "extract", "written")
    return rows.select_related("assembly").annotate(at=AT_ASSEMBLY, place=F("pk")), build


def _handoff_title(task: Task, row: PhaseCompression, *, is_last: bool) -> str:
    phase = HandoffPhase(row.phase)
    if row.made_in and phase.after:
        return f"Handed to {phase.after.label.lower()} again, version {row.version:,}"
    if is_last and phase.after and task.entered_at(phase.after):
        return f"Handed to {phase.after.label.lower()}"
    return f"{phase.label} compressed"


def _attempt_rows(task: Task) -> models.QuerySet[Attempt]:
    rows = Attempt.objects.filter(task=task).defer("plan", "error")
    return rows.select_related("assembly").annotate(at=AT_ASSEMBLY, place=F("number"))


def _attempts(task: Task) -> Source:
    def build(row: Any, make: MakeEvent) -> Event:
        return make(
            title=f"Attempt {row.number:,} failed",
            label=row.root_cause,
            note=str(row.diagnosis.get("reason") or ""),
            text=error_line(str(row.retry_context.get("latest_error") or "")),
            attempt=row.number,
        )

    return _attempt_rows(task), build


RETRY_TITLES = {
    Action.RETRY: "Retry with the changes",
    Action.REPLAN: "Replan sent",
    Action.REFETCH: "Retry with the full context",
    Action.WAIT: "Waited, nothing sent",
    Action.STOP: "Stopped, nothing sent",
}


def _retries(task: Task) -> Source:
    def build(row: Any, make: MakeEvent) -> Event:
        # A retry within an agent's context has no tokens of its own: the context's event has them all.
        is_part = row.assembly is not None and row.assembly.kind == Kind.AGENT
        baseline = FULL_REPLAN if row.action == Action.REPLAN else BASELINES[Kind.RETRY]
        return make(
            title=RETRY_TITLES[row.action],
            note=attempt_note(row),
            assembly=None if is_part else row.assembly,
            baseline=baseline if row.is_sent and not is_part else "",
            unsent="" if row.is_sent else "nothing was sent",
            attempt=row.number,
        )

    return _attempt_rows(task), build


def _completion(task: Task) -> Source:
    def build(row: Completion, make: MakeEvent) -> Event:
        outcome, quality = row.report["outcome"], row.report["quality_score"]
        return make(
            title=str(outcome).capitalize() + ("" if quality is None else f", quality {quality:g}"),
            note=learned_note(row.learned),
            memory_id=(row.learned or {}).get("strategy_id"),
        )

    rows = Completion.objects.filter(task=task)
    return rows.annotate(at=F("created_at"), place=F("pk")), build


_SOURCES: dict[EventKind, Callable[[Task], Source]] = {
    EventKind.HINT: _hints,
    EventKind.CONTEXT: _contexts,
    EventKind.FINDING: _findings,
    EventKind.DECISION: _decisions,
    EventKind.HANDOFF: _handoffs,
    EventKind.ATTEMPT: _attempts,
    EventKind.RETRY: _retries,
    EventKind.COMPLETION: _completion,
}
