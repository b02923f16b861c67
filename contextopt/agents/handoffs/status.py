"""The status of a task: its phase, findings, hand-offs and their sizes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

from contextopt.agents.handoffs.compression import HandoffBudgets, input_budget, load_budgets
from contextopt.agents.handoffs.inputs import PhaseName
from contextopt.agents.handoffs.models import Finding, PhaseCompression, finding_key
from contextopt.agents.models import HandoffPhase, Task
from contextopt.agents.tasks import find_task
from contextopt.agents.timeline.account import NOTHING, Account, add_up, read_handoff_accounts
from contextopt.engine.briefs.compressor import FINDINGS_OVER_BUDGET, OPEN_DECISIONS
from contextopt.engine.values import ContextWarning, WarningJson, warnings_json
from contextopt.inputs import show

NOT_COMPRESSED = "not_compressed"
"""Some findings are not in their phase's hand-off yet; the next bundle adds them."""


class BundleFindingOut(TypedDict):
    id: str
    phase: PhaseName
    category: str
    content: dict[str, Any]
    tags: list[str]
    confidence: float
    depends_on: list[str]
    implementation_ready: bool
    decision: Literal["open", "resolved"] | None
    answer: str


class FindingOut(BundleFindingOut):
    """One finding. `tokens` counts the finding alone, in full."""

    resolved_by: str
    resolved_at: datetime | None
    relabelled_by: str
    relabelled_at: datetime | None
    tokens: int
    created_by: str
    created_at: datetime


class DiscardedOut(TypedDict):
    id: str
    reason: str


class HandoffSettingsOut(TypedDict):
    """The settings used to compress a phase."""

    bundle_tokens: int
    findings_tokens: int
    brief_tokens: int
    critical_tokens: int
    max_critical: int
    key_categories: list[str]
    critical_above: float
    speculation_below: float


class CompressionOut(TypedDict):
    """A phase's hand-off. `token_count` counts the brief only. `other_brief` belongs to a writer that is not
    active, and `brief_note` says why. `saved_tokens` is null if no phase received it, and until its brief is
    written. Leaving out a finding that matters saves nothing.
    """

    version: int
    brief: str
    critical_findings: list[str]
    token_count: int
    critical_tokens: int
    tokens_before: int
    tokens_after: int
    saved_tokens: int | None
    discarded: list[DiscardedOut]
    warnings: list[WarningJson]
    forced: bool
    open_decisions: list[str]
    writer: Literal["extract", "model"]
    writer_version: str
    brief_state: Literal["none", "pending", "in_force", "refused", "late"]
    brief_note: str
    other_brief: str
    settings: HandoffSettingsOut
    assembly_id: int | None
    consumed_at: datetime | None
    created_by: str
    created_at: datetime


class PhaseCompressionsOut(TypedDict):
    """Hand-offs by phase. A phase that was not compressed is absent."""

    analysis: NotRequired[CompressionOut]
    design: NotRequired[CompressionOut]
    implementation: NotRequired[CompressionOut]


class KnowledgePoolOut(TypedDict):
    phase_compressions: PhaseCompressionsOut


class PhaseTokensOut(TypedDict):
    """A phase's limits and its hand-off. Hand-off figures are null until it is compressed."""

    input_budget: int
    output_budget: int
    findings: int
    findings_tokens: int
    open_decisions: list[str]
    tokens_before: int | None
    tokens_after: int | None
    saved_tokens: int | None


class TokensOut(TypedDict):
    analysis: PhaseTokensOut
    design: PhaseTokensOut
    implementation: PhaseTokensOut


class TaskFacts(TypedDict):
    id: int
    external_id: str
    description: str
    repository: str
    state: Literal["open", "completed", "failed", "impossible"]
    phase: PhaseName
    created_by: str
    created_at: datetime
    updated_at: datetime


class StatusOut(TaskFacts):
    """A task with the findings and hand-offs of its phases."""

    findings: list[FindingOut]
    knowledge_pool: KnowledgePoolOut
    tokens: TokensOut
    saved_tokens: int
    warnings: list[WarningJson]


def finding_json(finding: Finding) -> dict[str, Any]:
    return show(
        FindingOut,
        finding,
        id=finding.key,
        depends_on=finding.dependencies,
        decision=finding.decision or None,
        answer=finding.resolution,
    )


def compression_json(compression: PhaseCompression) -> dict[str, Any]:
    """Return the task's `knowledge_pool.phase_compressions.PHASE`."""
    is_written = compression.has_written
    return show(
        CompressionOut,
        compression,
        token_count=compression.brief_tokens,
        warnings=warnings_json(compression.read_warnings()),
        forced=compression.is_forced,
        open_decisions=[finding_key(number) for number in compression.undecided],
        writer="model" if is_written else "extract",
        writer_version=compression.written_by if is_written else compression.writer_version,
        other_brief=compression.extract if is_written else compression.written,
    )


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
        """Findings that were added, tagged, linked or decided after the phase was compressed."""
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
            text = f"added, changed or decided since compression: {', '.join(self.late[:20])}"
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
        compressions = [status.compression for status in self.phases if status.compression]
        return show(
            StatusOut,
            self.task,
            findings=[finding_json(finding) for finding in self.findings],
            knowledge_pool=knowledge_pool(compressions),
            tokens={status.phase.value: status.to_json() for status in self.phases},
            saved_tokens=self.account.saved_tokens or 0,
            warnings=warnings_json(self.warnings),
        )


def knowledge_pool(compressions: Sequence[PhaseCompression]) -> dict[str, Any]:
    """Return the hand-offs of the task's phases, by phase."""
    return {"phase_compressions": {each.phase: compression_json(each) for each in compressions}}


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
