"""Bundles what a phase starts with: the hand-off of the phase before it, and a context that fits."""

from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Any

from django.db import transaction

from contextopt.agents.handoffs.compression import (
    consume,
    critical_text,
    find_unseen,
    handed_findings,
    input_budget,
    load_budgets,
    make_compression,
)
from contextopt.agents.handoffs.inputs import BundleIn
from contextopt.agents.handoffs.models import Finding, PhaseCompression
from contextopt.agents.models import HandoffPhase, Task
from contextopt.agents.phases import saving_of
from contextopt.agents.tasks import hold_task
from contextopt.assemblies.savings import log_saving
from contextopt.engine.agents.contexts import FIELDS
from contextopt.engine.agents.phases import PhaseProfile, PhaseResult, filter_phase
from contextopt.engine.briefs import findings as values
from contextopt.engine.text.quoting import mark
from contextopt.engine.text.tokens import DEFAULT_ENCODING, RenderedCounter, get_tokenizer
from contextopt.engine.values import ContextWarning, warnings_json
from contextopt.people.audit import SYSTEM

IN_BRIEF = "in_brief"


@dataclass(frozen=True, slots=True)
class Reference:
    """A finding that is not included in full, and the URL where it can be read."""

    id: str
    category: str
    reason: str
    tokens: int
    url: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """Everything a phase starts with. `compression` is None in the first phase, which has no hand-off."""

    task: Task
    phase: HandoffPhase
    compression: PhaseCompression | None
    critical: tuple[values.Finding, ...]
    references: tuple[Reference, ...]
    context: PhaseResult
    handed_text: str
    budget_tokens: int
    warnings: tuple[ContextWarning, ...]
    context_assembly_id: int | None

    @property
    def text(self) -> str:
        """The text for the agent: critical findings, brief, context. All of it but our headings is marked."""
        parts = (mark(self.handed_text), self.context.context.render())
        return "\n".join(filter(None, parts))

    @property
    def tokens(self) -> int:
        """The size of the bundle. Findings and brief count as handed on, without marks."""
        handed = self.compression.tokens_after if self.compression else 0
        return handed + self.context.filtered_tokens

    @property
    def tokens_without(self) -> int:
        """The size of the bundle if every finding were included in full."""
        handed = self.compression.tokens_before if self.compression else 0
        return handed + self.context.filtered_tokens

    def to_json(self) -> dict[str, Any]:
        compression = self.compression
        return {
            "task_id": self.task.pk,
            "phase": self.phase.value,
            "from_phase": compression.phase if compression else None,
            "text": self.text,
            "brief": compression.brief if compression else "",
            "critical_findings": [finding.to_json() for finding in self.critical],
            "references": [asdict(reference) for reference in self.references],
            "context": self.context.context.to_json(),
            "budget_tokens": self.budget_tokens,
            "tokens": self.tokens,
            "tokens_without_compression": self.tokens_without,
            "brief_tokens": compression.brief_tokens if compression else 0,
            "critical_tokens": compression.critical_tokens if compression else 0,
            "context_tokens": self.context.filtered_tokens,
            "warnings": warnings_json(self.warnings),
            "assembly_id": compression.assembly_id if compression else None,
            "context_assembly_id": self.context_assembly_id,
        }


def build_bundle(*, team_id: int, task_id: int, data: BundleIn, actor: str = SYSTEM) -> Bundle:
    """Return the bundle of the task's current phase, and log its context. The brief in it never changes
    afterwards.

    If findings of earlier phases were added, tagged, linked or decided since, first make a new version of the
    hand-off.

    Raises:
        NotFound: the team has no such task.
    """
    context = data.context.to_value()
    with transaction.atomic():
        task = hold_task(team_id, task_id)
        phase = HandoffPhase(task.phase)
        compression = take_handoff(task, phase.before, actor) if phase.before else None
    budgets = load_budgets(team_id)
    profile = PhaseProfile(phase, budgets[phase].bundle_tokens, FIELDS)
    counter = RenderedCounter(get_tokenizer(DEFAULT_ENCODING))
    started = perf_counter()
    fitted = filter_phase(context, phase, {phase: profile}, counter)
    assembly = None
    if fitted.full_tokens:
        saving = saving_of(context, fitted, profile.to_json(), counter, (perf_counter() - started) * 1_000)
        assembly = log_saving(team_id=team_id, saving=replace(saving, task_id=task.pk), actor=actor)
    findings = handed_findings(compression) if compression else []
    critical = set(compression.critical_findings) if compression else set()
    return Bundle(
        task=task,
        phase=phase,
        compression=compression,
        critical=tuple(finding for finding in findings if finding.id in critical),
        references=_references(compression) if compression else (),
        context=fitted,
        handed_text=critical_text(compression, findings) + compression.brief if compression else "",
        budget_tokens=input_budget(budgets, phase),
        warnings=(*(compression.read_warnings() if compression else ()), *fitted.warnings),
        context_assembly_id=assembly.pk if assembly else None,
    )


def take_handoff(task: Task, phase: HandoffPhase, actor: str) -> PhaseCompression | None:
    """Return the hand-off of a locked task's phase, and note that it was read; None if there is none yet.

    That of an ended phase is brought up to date first.
    """
    latest = PhaseCompression.objects.filter(task=task, phase=phase).order_by("-version").first()
    if latest is None:
        return None
    findings = Finding.objects.filter(task=task, phase=phase)
    if phase != task.phase and latest.missed([*findings, *find_unseen(task, phase)]):
        latest = make_compression(task, phase, is_forced=True, actor=actor)
    compression = PhaseCompression.objects.select_for_update(of=("self",), no_key=True).get(pk=latest.pk)
    consume(compression)
    return compression


def _references(compression: PhaseCompression) -> tuple[Reference, ...]:
    """Return a reference to every finding that is handed on but not included in full."""
    reasons = {item["id"]: item["reason"] for item in compression.discarded}
    rows = compression.task.findings.filter(number__in=compression.covered - set(compression.critical))
    return tuple(
        Reference(
            id=finding.key,
            category=finding.category,
            reason=reasons.get(finding.key, IN_BRIEF),
            tokens=finding.tokens,
            url=f"/api/v1/tasks/{compression.task_id}/findings/{finding.key}",
        )
        for finding in rows.defer("content").in_order()
    )
