"""What a phase is given to begin with: the hand-off of the phase before it, and a context that fits."""

from dataclasses import asdict, dataclass
from typing import Any

from django.db import transaction

from contextopt.agenttasks import find_task
from contextopt.compressing import ENCODING, consume, critical_text, handed_findings
from contextopt.engine import findings as values
from contextopt.engine.agentcontext import FIELDS
from contextopt.engine.counters import RenderedCounter
from contextopt.engine.marks import mark
from contextopt.engine.phases import PhaseProfile, PhaseResult, filter_phase
from contextopt.engine.tokens import get_tokenizer
from contextopt.findinginputs import BundleIn
from contextopt.handoffbudgets import budgets_in_force, input_budget
from contextopt.models import HandoffPhase, PhaseCompression, Task

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
    warnings: tuple[str, ...]

    @property
    def text(self) -> str:
        """What the agent is sent: critical findings, brief, context; all but our headings is marked."""
        parts = (mark(self.handed_text), self.context.context.render())
        return "\n".join(filter(None, parts))

    @property
    def tokens(self) -> int:
        """What the bundle weighs. Findings and brief count as they were handed on, without marks."""
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
            "warnings": list(self.warnings),
            "assembly_id": compression.assembly_id if compression else None,
        }


def build_bundle(*, team_id: int, task_id: int, data: BundleIn) -> Bundle:
    """Give the task's present phase its bundle. From then on the brief that it was given stays.

    Raises:
        NotFound: the team has no such task.
    """
    context = data.context.to_value()
    with transaction.atomic():
        task = find_task(team_id, task_id)
        phase = HandoffPhase(task.phase)
        compression = _take(task, phase)
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
        warnings=(*(compression.warnings if compression else ()), *map(str, fitted.warnings)),
    )


def _take(task: Task, phase: HandoffPhase) -> PhaseCompression | None:
    if phase.before is None:
        return None
    rows = PhaseCompression.objects.select_for_update(of=("self",), no_key=True)
    compression = rows.get(task=task, phase=phase.before)
    consume(compression)
    return compression


def _references(compression: PhaseCompression) -> tuple[Reference, ...]:
    """Name every finding of the phase that is not given whole."""
    reasons = {item["id"]: item["reason"] for item in compression.discarded}
    rows = compression.task.findings.filter(phase=compression.phase).exclude(number__in=compression.critical)
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
