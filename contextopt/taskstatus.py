"""Where a task stands: its phase, what was found, what was handed on, and what that weighs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from contextopt.agenttasks import find_task
from contextopt.handoffbudgets import HandoffBudgets, budgets_in_force, input_budget
from contextopt.models import Finding, HandoffPhase, PhaseCompression, Task
from contextopt.models.findings import finding_key


@dataclass(frozen=True, slots=True)
class PhaseStatus:
    """One phase in numbers. `input_tokens` is what it is given at most, its hand-over included."""

    phase: HandoffPhase
    budgets: HandoffBudgets
    input_tokens: int
    findings: int
    findings_tokens: int
    undecided: tuple[str, ...]
    compression: PhaseCompression | None

    @property
    def is_over(self) -> bool:
        return self.findings_tokens > self.budgets.limits.output_tokens

    @property
    def saved_tokens(self) -> int:
        return self.compression.saved_tokens if self.compression else 0

    def to_json(self) -> dict[str, Any]:
        compression = self.compression
        return {
            "input_budget": self.input_tokens,
            "output_budget": self.budgets.limits.output_tokens,
            "findings": self.findings,
            "findings_tokens": self.findings_tokens,
            "open_decisions": list(self.undecided),
            "tokens_before": compression.tokens_before if compression else None,
            "tokens_after": compression.tokens_after if compression else None,
            "saved_tokens": compression.saved_tokens if compression else None,
        }


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A task with its findings in order and its phases in theirs."""

    task: Task
    findings: tuple[Finding, ...]
    phases: tuple[PhaseStatus, ...]

    @property
    def warnings(self) -> list[str]:
        """What is wrong with the task's hand-offs, each with its phase."""
        found = []
        for status in self.phases:
            compression = status.compression
            found += [f"{status.phase}: {text}" for text in (compression.warnings if compression else ())]
            if compression is None and status.is_over:
                limit = status.budgets.limits.output_tokens
                size = f"{status.findings_tokens:,} tokens, more than {limit:,}"
                found.append(f"{status.phase}: the findings have {size}")
            if status.undecided:
                found.append(f"{status.phase}: decisions are open: {', '.join(status.undecided[:20])}")
        return found

    def of_phase(self, phase: HandoffPhase) -> list[Finding]:
        return [finding for finding in self.findings if finding.phase == phase]

    def to_json(self) -> dict[str, Any]:
        """Return the task, as the commands and the API give it."""
        task = self.task
        compressions = [status.compression for status in self.phases if status.compression]
        return {
            "id": task.pk,
            "external_id": task.external_id,
            "description": task.description,
            "repository": task.repository,
            "state": task.state,
            "phase": task.phase,
            "created_by": task.created_by,
            "created_at": task.created_at,
            "updated_at": task.updated_at,
            "findings": [finding.to_json() for finding in self.findings],
            "knowledge_pool": knowledge_pool(compressions),
            "tokens": {status.phase.value: status.to_json() for status in self.phases},
            "saved_tokens": sum(status.saved_tokens for status in self.phases),
            "warnings": self.warnings,
        }


def knowledge_pool(compressions: Sequence[PhaseCompression]) -> dict[str, Any]:
    """Return what the task's phases have handed on, by phase."""
    return {"phase_compressions": {each.phase: each.to_json() for each in compressions}}


def task_status(*, team_id: int, task_id: int) -> TaskStatus:
    """Return the task as it stands, in four queries.

    Raises:
        NotFound: the team has no such task.
    """
    return read_status(find_task(team_id, task_id))


def read_status(task: Task) -> TaskStatus:
    findings = tuple(Finding.objects.filter(task=task).in_order())
    compressions = {each.phase: each for each in PhaseCompression.objects.filter(task=task)}
    budgets = budgets_in_force(task.team_id)
    phases = tuple(
        PhaseStatus(
            phase=phase,
            budgets=budgets[phase],
            input_tokens=input_budget(budgets, phase),
            findings=sum(finding.phase == phase for finding in findings),
            findings_tokens=sum(finding.tokens for finding in findings if finding.phase == phase),
            undecided=tuple(
                finding_key(finding.number)
                for finding in findings
                if finding.phase == phase and finding.is_open
            ),
            compression=compressions.get(phase),
        )
        for phase in HandoffPhase
    )
    return TaskStatus(task, findings, phases)
