"""The hand-off that a step brings, and what its receiver was sent in earlier steps of the task."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict, cast

from contextopt.agents.handoffs.bundles import take_handoff
from contextopt.agents.handoffs.compression import handed_findings
from contextopt.agents.handoffs.inputs import PhaseName
from contextopt.agents.handoffs.models import Finding, PhaseCompression, finding_key
from contextopt.agents.handoffs.status import NOT_COMPRESSED
from contextopt.agents.models import HandoffPhase, Task
from contextopt.agents.tasks import hold_task
from contextopt.assemblies.models import AssemblyPayload, Kind
from contextopt.engine.agents.steps import HANDOFF, STANDING, Handoff, HandoffPart, LeftOut
from contextopt.engine.briefs.findings import render_finding
from contextopt.engine.values import ContextWarning
from memory.steps.candidates import leave_out

BRIEF = "brief"
NOT_HANDED_ON = "not_handed_on"
"""Neither critical nor in the brief. The hand-off has the reason."""
NAMED_MAX = 20
STEPS_READ = 50
"""At most this many earlier steps of a receiver are read, and contents of older ones are sent again."""


class HandoffJson(TypedDict):
    """The hand-off in the text. `parts` counts its critical findings and its brief."""

    phase: PhaseName
    version: int
    parts: int


@dataclass(frozen=True, slots=True)
class Received:
    """The hand-off of the phase before, and warnings about what it lacks."""

    compression: PhaseCompression | None = None
    value: Handoff | None = None
    left_out: LeftOut = field(default_factory=LeftOut)
    warnings: tuple[ContextWarning, ...] = ()

    @property
    def version(self) -> HandoffJson | None:
        """Return the phase, the version and the number of parts of the hand-off, as steps log it."""
        if self.compression is None:
            return None
        parts = len(self.value.parts) if self.value else 0
        phase = cast("PhaseName", self.compression.phase)
        return HandoffJson(phase=phase, version=self.compression.version, parts=parts)


def receive(task: Task, phase: str, actor: str) -> Received:
    """Take the hand-off of a phase for a step of the task, and note that it was read."""
    if not phase or not Finding.objects.filter(task=task).exists():
        return Received()
    task = hold_task(task.team_id, task.pk)
    compression = take_handoff(task, HandoffPhase(phase), actor)
    pending = tuple(_warn_of_pending(task, HandoffPhase(phase), compression))
    if compression is None:
        return Received(warnings=pending)
    wanted = set(compression.critical_findings)
    parts = [
        HandoffPart(finding.id, render_finding(finding))
        for finding in handed_findings(compression)
        if finding.id in wanted
    ]
    if compression.brief:
        parts.append(HandoffPart(BRIEF, compression.brief, "Brief"))
    left_out = [(item["id"], NOT_HANDED_ON) for item in compression.discarded]
    return Received(
        compression=compression,
        value=Handoff(compression.phase, tuple(parts)) if parts else None,
        left_out=leave_out(left_out),
        warnings=(*compression.read_warnings(), *pending),
    )


def _warn_of_pending(
    task: Task, phase: HandoffPhase, compression: PhaseCompression | None
) -> Iterator[ContextWarning]:
    """Warn of findings up to this phase that the task has not handed on yet."""
    current = HandoffPhase(task.phase)
    if not task.is_open or current not in (*phase.all_before, phase):
        return
    rows = list(Finding.objects.filter(task=task, phase=current).in_order())
    if compression is not None and compression.phase == current:
        rows = compression.missed(rows)
    if not rows:
        return
    named = ", ".join(finding_key(row.number) for row in rows[:NAMED_MAX])
    more = f" and {len(rows) - NAMED_MAX:,} more" if len(rows) > NAMED_MAX else ""
    text = f"The task is still in {current}, so these findings are not handed on yet: {named}{more}."
    yield ContextWarning(NOT_COMPRESSED, text)


@dataclass(frozen=True, slots=True)
class Seen:
    """The hand-offs and standing documents that earlier steps sent a receiver, with the latest time."""

    handoffs: Collection[tuple[str, int]] = ()
    documents: dict[str, datetime] = field(default_factory=dict)


def load_seen(task: Task, receiver: str) -> Seen:
    """Return what the receiver was sent in the task's latest steps."""
    rows = AssemblyPayload.objects.filter(
        assembly__task=task, assembly__kind=Kind.AGENT, assembly__is_sent=True, request__receiver=receiver
    )
    latest = rows.order_by("-assembly_id")[:STEPS_READ]
    handoffs: set[tuple[str, int]] = set()
    documents: dict[str, datetime] = {}
    for at, handed, sections in latest.values_list(
        "assembly__created_at", "request__handoff", "ledger__sections"
    ):
        by_name = {section["name"]: section for section in sections or ()}
        if handed and HANDOFF in by_name and by_name[HANDOFF]["kept"] == handed["parts"]:
            handoffs.add((handed["phase"], handed["version"]))
        for item in by_name.get(STANDING, {}).get("items", ()):
            if item["kept"]:
                documents.setdefault(item["id"], at)
    return Seen(handoffs, documents)
