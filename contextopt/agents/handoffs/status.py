"""The status of a task: its phase, findings, hand-offs and their sizes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from contextopt.agents.handoffs.compression import HandoffBudgets, input_budget, load_budgets
from contextopt.agents.handoffs.models import Finding, PhaseCompression
from contextopt.agents.models import HandoffPhase, Task
from contextopt.agents.tasks import find_task
from contextopt.agents.timeline.account import NOTHING, Account, add_up, read_handoff_accounts
from contextopt.engine.briefs.compressor import FINDINGS_OVER_BUDGET, OPEN_DECISIONS
from contextopt.engine.values import ContextWarning, warnings_json

NOT_COMPRESSED = "not_compressed"
"""Some findings are not in their phase's hand-off yet; the next bundle adds them."""


@dataclass(frozen=True, slots=True)
class PhaseStatus:
    """One phase in numbers. `input_tokens` is the most it is given, including its hand-off."""

    phase: HandoffPhase
    budgets: HandoffBudgets
    input_tokens: int
    rows: tuple[Finding, ...]
    compression: PhaseCompression | None
    account: Account

    @property
    def findings(self) -> int:
        return len(self.rows)

    @property
    def findings_tokens(self) -> int:
        return sum(finding.tokens for finding in self.rows)

    @property
    def undecided(self) -> tuple[str, ...]:
        return tuple(finding.key for finding in self.rows if finding.is_open)

    @property
    def is_over(self) -> bool:
        return self.findings_tokens > self.budgets.limits.output_tokens

    @property
    def late(self) -> tuple[str, ...]:
        """Findings that were added, tagged or linked after the phase was compressed."""
        compression = self.compression
        if compression is None:
            return ()
        return tuple(finding.key for finding in compression.missed(self.rows))

    @property
    def warnings(self) -> Iterator[ContextWarning]:
        """The warnings of the compression, or of one made now. Open decisions are the current ones."""
        for warning in self.compression.read_warnings() if self.compression else ():
            if warning.code != OPEN_DECISIONS:
                yield warning
        if self.compression is None and self.is_over:
            size = f"{self.findings_tokens:,} tokens, more than {self.budgets.limits.output_tokens:,}"
            yield ContextWarning(FINDINGS_OVER_BUDGET, f"the findings have {size}")
        if self.undecided:
            text = f"decisions are open: {', '.join(self.undecided[:20])}"
            yield ContextWarning(OPEN_DECISIONS, text)
        if self.late:
            text = f"added, tagged or linked since compression: {', '.join(self.late[:20])}"
            yield ContextWarning(NOT_COMPRESSED, text)

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
            "saved_tokens": self.account.saved_tokens,
        }


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A task with its findings and phases, both in order."""

    task: Task
    findings: tuple[Finding, ...]
    phases: tuple[PhaseStatus, ...]

    @property
    def account(self) -> Account:
        """The account of all the task's hand-offs."""
        return add_up(status.account for status in self.phases)

    @property
    def warnings(self) -> list[ContextWarning]:
        """Warnings about the task's hand-offs, each with its phase."""
        return [
            replace(warning, message=f"{status.phase}: {warning.message}")
            for status in self.phases
            for warning in status.warnings
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the task as commands and the API show it."""
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
            "saved_tokens": self.account.saved_tokens or 0,
            "warnings": warnings_json(self.warnings),
        }


def knowledge_pool(compressions: Sequence[PhaseCompression]) -> dict[str, Any]:
    """Return the hand-offs of the task's phases, by phase."""
    return {"phase_compressions": {each.phase: each.to_json() for each in compressions}}


def task_status(*, team_id: int, task_id: int) -> TaskStatus:
    """Return the task's current status, in five queries.

    Raises:
        NotFound: the team has no such task.
    """
    return read_status(find_task(team_id, task_id))


def read_status(task: Task) -> TaskStatus:
    findings = tuple(Finding.objects.filter(task=task).in_order())
    latest = PhaseCompression.objects.filter(task=task).latest_versions()
    compressions = {each.phase: each for each in latest}
    budgets = load_budgets(task.team_id)
    accounts = read_handoff_accounts(task)
    phases = tuple(
        PhaseStatus(
            phase=phase,
            budgets=budgets[phase],
            input_tokens=input_budget(budgets, phase),
            rows=tuple(finding for finding in findings if finding.phase == phase),
            compression=compressions.get(phase),
            account=accounts.get(phase, NOTHING),
        )
        for phase in HandoffPhase
    )
    return TaskStatus(task, findings, phases)
