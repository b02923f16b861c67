"""What a phase is given to begin with: the hand-off of the phase before it, and a context that fits."""

from dataclasses import asdict, dataclass
from typing import Any

from django.db import transaction

from contextopt.agents.handoffs.budgets import budgets_in_force, input_budget
from contextopt.agents.handoffs.compression import (
    ENCODING,
    consume,
    critical_text,
    find_unseen,
    handed_findings,
    make_compression,
)
from contextopt.agents.handoffs.inputs import BundleIn
from contextopt.agents.handoffs.models import Finding, PhaseCompression
from contextopt.agents.models import HandoffPhase, Task
from contextopt.agents.tasks import find_task
from contextopt.engine.agents.contexts import FIELDS
from contextopt.engine.agents.phases import PhaseProfile, PhaseResult, filter_phase
from contextopt.engine.briefs import findings as values
from contextopt.engine.prompts.warnings import ContextWarning, warnings_json
from contextopt.engine.text.counters import RenderedCounter
from contextopt.engine.text.marks import mark
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.locks import hold_team
from contextopt.people.audit import SYSTEM

IN_BRIEF = "in_brief"


@dataclass(frozen=True, slots=True)
class Reference:
    """A finding that is not given whole, and where it can be had."""

    id: str
    category: str
    reason: str
    tokens: int
    url: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """All that a phase begins with. `compression` is none for the first phase: nothing came before it."""

    task: Task
    phase: HandoffPhase
    compression: PhaseCompression | None
    critical: tuple[values.Finding, ...]
    references: tuple[Reference, ...]
    context: PhaseResult
    handed_text: str
    budget_tokens: int
    warnings: tuple[ContextWarning, ...]

    @property
    def text(self) -> str:
        """The text for the agent: critical findings, brief, context. All but our headings is marked."""
        parts = (mark(self.handed_text), self.context.context.render())
        return "\n".join(filter(None, parts))

    @property
    def tokens(self) -> int:
        """The size of the bundle. Findings and brief count as they were handed on, without marks."""
        handed = self.compression.tokens_after if self.compression else 0
        return handed + self.context.filtered_tokens

    @property
    def tokens_without(self) -> int:
        """What the phase would have weighed with every finding in full."""
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
        }


def build_bundle(*, team_id: int, task_id: int, data: BundleIn, actor: str = SYSTEM) -> Bundle:
    """Give the task's present phase its bundle. From then on the brief that it was given stays.

    Findings of earlier phases that came since, or were tagged or linked, give a further version first.

    Raises:
        NotFound: the team has no such task.
    """
    context = data.context.to_value()
    with transaction.atomic():
        task = find_task(team_id, task_id)
        phase = HandoffPhase(task.phase)
        compression = _take(task, phase, actor)
    budgets = budgets_in_force(team_id)
    profile = PhaseProfile(phase, budgets[phase].bundle_tokens, FIELDS)
    counter = RenderedCounter(get_tokenizer(ENCODING))
    fitted = filter_phase(context, phase, {phase: profile}, counter)
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
    )


def _take(task: Task, phase: HandoffPhase, actor: str) -> PhaseCompression | None:
    """Return the hand-off of the phase before, brought up to date, and note that it is read.

    Its row is locked after the task's, as everybody does who compresses.
    """
    before = phase.before
    if before is None:
        return None
    hold_team(task.team_id)
    Task.objects.select_for_update(no_key=True).get(pk=task.pk)
    latest = PhaseCompression.objects.filter(task=task, phase=before).latest("version")
    findings = Finding.objects.filter(task=task, phase=before)
    if latest.missed([*findings, *find_unseen(task, before)]):
        latest = make_compression(task, before, is_forced=True, actor=actor)
    compression = PhaseCompression.objects.select_for_update(of=("self",), no_key=True).get(pk=latest.pk)
    consume(compression)
    return compression


def _references(compression: PhaseCompression) -> tuple[Reference, ...]:
    """Name every finding that is handed on and not given whole."""
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
