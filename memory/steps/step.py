"""The only way to build the context for a step: look up → engine → log → what the receiver has now."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, TypedDict

import structlog
from django.db import transaction

from contextopt.agents.inputs import present
from contextopt.agents.models import PATH_MAX, Attempt, Task, files_expiry
from contextopt.agents.receivers import load_receiver_files, store_receiver_files
from contextopt.agents.retries import PlannedAttempt
from contextopt.assemblies.models import Assembly, EntryJson, Kind, pack_entries
from contextopt.assemblies.savings import Saving, log_saving
from contextopt.assemblies.tokenfactors import model_warnings
from contextopt.engine.agents.composition import Composed, compose
from contextopt.engine.agents.contexts import AgentContext
from contextopt.engine.agents.deltas import ReceiverFiles, SentFile, fully_sent, remember
from contextopt.engine.agents.retries import percent_of
from contextopt.engine.agents.steps import HINT, SectionLedger, WithHandoff
from contextopt.engine.text.tokens import Measurable, Unmarked, get_counter
from contextopt.engine.values import (
    TASK_STOPPED,
    TASK_WAITS,
    Certificate,
    ContextWarning,
    LedgerEntry,
    warnings_json,
)
from contextopt.inputs import fields_of, pick
from contextopt.locks import hold_team
from contextopt.people.models import Team
from memory.memories.inputs import HintIn
from memory.steps.candidates import record_name
from memory.steps.inputs import AgentStepIn
from memory.steps.received import HandoffJson
from memory.steps.sources import Gathered, gather
from memory.steps.subject import Asked, read_request
from memory.strategies.hints import record_use
from memory.strategies.matches import MatchJson
from memory.strategies.models import StrategyUse

log = structlog.get_logger(__name__)


@fields_of(LedgerEntry, without=("parts", "pinned", "duplicate_of"))
class StepRecordOut(TypedDict):
    """A record of the space that was a candidate."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """Everything that an agent is sent for one step.

    `attempt` is the failed attempt that this call recorded. `assembly` is None if nothing is sent, because
    the task waits or stops.
    """

    asked: Asked
    text: str
    sections: tuple[SectionLedger, ...]
    certificate: Certificate
    warnings: tuple[ContextWarning, ...]
    entries: tuple[EntryJson, ...] = ()
    assembly: Assembly | None = None
    attempt: Attempt | None = None
    use: StrategyUse | None = None
    full_tokens: int | None = None
    handoff: HandoffJson | None = None

    @property
    def saved_tokens(self) -> int | None:
        """Tokens saved against the caller's full context, or None if there is none or it doesn't count."""
        return self.assembly.tokens_saved if self.assembly else None

    def to_json(self) -> dict[str, Any]:
        """Return the response of the API and of `agent_context --json`."""
        asked = self.asked
        return {
            "id": self.assembly.pk if self.assembly else None,
            "task_id": asked.task.pk,
            "task": asked.task_text,
            "phase": asked.data.phase,
            "profile": asked.profile.value.phase,
            "profile_version": asked.profile.version,
            "handoff": self.handoff,
            "repository": asked.repository_name,
            "space": asked.data.space,
            "budget_tokens": asked.budget,
            "text": self.text,
            "sections": [section.to_json() for section in self.sections],
            "certificate": self.certificate.to_json(),
            "warnings": warnings_json(self.warnings),
            "full_tokens": self.full_tokens,
            "saved_tokens": self.saved_tokens,
            "saved_percent": percent_of(self.saved_tokens, self.full_tokens or 0),
            "attempt": self._attempt_json(),
            "strategy": self._strategy_json(),
            "records": [
                {name: value for name, value in entry.items() if name in StepRecordOut.__annotations__}
                for entry in self.entries
            ],
        }

    def _strategy_json(self) -> dict[str, Any] | None:
        """Return the strategy in the text, and how it matches the task."""
        use = self.use
        return pick(use, ("memory_id", *MatchJson.__annotations__)) | {"use_id": use.pk} if use else None

    def _attempt_json(self) -> dict[str, Any] | None:
        """Return the failed attempt that this call recorded, and what follows from it."""
        planned = self.asked.planned
        if self.attempt is None or planned is None:
            return None
        return {
            "id": self.attempt.pk,
            "number": self.attempt.number,
            "action": self.attempt.action,
            "wait_seconds": planned.retry.plan.wait_seconds,
            "error": planned.retry.error,
        }


def files_after(
    known: ReceiverFiles, composed: Composed, planned: PlannedAttempt | None
) -> dict[str, SentFile]:
    """Return the receiver's files after the step. Only what is whole in the text counts as sent in full."""
    files = dict(known) if planned is None else _after_retry(known, composed, planned)
    for file in composed.step.context.files:
        if len(file.path) > PATH_MAX:
            continue
        if file.path in composed.whole_files:
            files[file.path] = SentFile(file.content)
        else:
            files[file.path] = SentFile(files.get(file.path, SentFile(None)).content, is_partial=True)
    return files


def _after_retry(known: ReceiverFiles, composed: Composed, planned: PlannedAttempt) -> dict[str, SentFile]:
    """Return the files after the changes in the text. A file whose change is not in it stays as it was."""
    posted = planned.data.files
    files = dict(known) | fully_sent(present(planned.data.before))
    if planned.retry.plan.everything is not None:
        files = {path: file for path, file in files.items() if posted.get(path, "") is not None}
    retry = composed.step.retry
    for change in retry.changed_files if retry else ():
        remember(files, change, change.renamed_from or change.path, posted.get(change.path))
    return files


type Excess = Callable[[StepResult], int]
"""Returns by how many tokens the answer with this unlogged step is too long."""


@transaction.atomic
def build_step(*, team: Team, data: AgentStepIn, actor: str, excess: Excess | None = None) -> StepResult:
    """Decide what an agent is sent for one step of a task, log it, and remember what the receiver has.

    A failed attempt in the request is recorded. If the task then waits or stops, nothing is sent. With
    `excess`, the budget is lowered until the caller's answer is short enough.

    Raises:
        InvalidInput, NotFound, Conflict: see `read_request` and `gather`.
        UnknownEncoding: the tokenizer is not available.
    """
    started = perf_counter()
    counter = get_counter("tokenizer", data.tokenizer(team.pk))
    asked = read_request(team, data, counter, actor)
    if asked.planned and not asked.planned.retry.plan.is_sent:
        return _send_nothing(asked, asked.planned)
    sent = _decide(asked, gather(asked), excess or (lambda _: 0))
    return sent.store((perf_counter() - started) * 1_000)


def _decide(asked: Asked, gathered: Gathered, excess: Excess) -> "_Sent":
    """Compose within the budget, or within a lower one if the answer would be too long."""
    budget, scale = asked.budget, 1.0
    while True:
        profile = replace(asked.profile.value, fields=asked.fields)
        composed = compose(gathered.candidates, profile, asked.counter, asked_tokens=budget)
        sent = _Sent(asked, gathered, composed)
        over = excess(sent.draft())
        if over <= 0 or not composed.tokens:
            return sent
        # A token of the text may take several in the answer.
        budget = max(min(composed.tokens - 1, int(scale * (composed.tokens - over))), 0)
        scale /= 2


@dataclass(frozen=True, slots=True)
class _Sent:
    """A composed step that is not stored yet."""

    asked: Asked
    gathered: Gathered
    composed: Composed

    @property
    def warnings(self) -> tuple[ContextWarning, ...]:
        return (*self.gathered.warnings, *self.composed.warnings, *model_warnings(self.asked.counter))

    @property
    def full(self) -> Unmarked | None:
        """The prompt without Contextopt: the caller's full context, if given, with plan and error in full.

        A planner would be sent task, plan and diagnosis. A hand-off is on both sides, as its own saving is
        logged when it is made.
        """
        given = self.asked.data.context
        if given is None:
            return None
        full: Measurable = given.to_value()
        if self.asked.planned is not None:
            retry = self.asked.planned.retry
            is_replan = retry.plan.action == "replan"
            full = retry.failed.in_full(retry.plan.action, AgentContext() if is_replan else given.to_value())
        handoff = self.composed.step.handoff
        return Unmarked(WithHandoff(full, handoff) if handoff else full)

    @property
    def entries(self) -> tuple[EntryJson, ...]:
        """The ledger of the space's records, if there is one."""
        if self.gathered.records is None:
            return ()
        return tuple(self.gathered.records.entries(self.composed.kept("docs")))

    def draft(self) -> StepResult:
        """Return the result before anything is stored."""
        text = self.composed.step.render()
        return StepResult(
            asked=self.asked,
            text=text,
            sections=self.composed.sections,
            certificate=Certificate.of(text, self.composed.tokens, self.asked.counter),
            warnings=self.warnings,
            entries=self.entries,
            handoff=self.handoff,
        )

    @property
    def handoff(self) -> HandoffJson | None:
        """The hand-off that is in the text, if any part of it is."""
        return self.gathered.received.version if self.composed.step.handoff else None

    def store(self, assembly_ms: float) -> StepResult:
        asked, saving = self.asked, self.saving(assembly_ms)
        assembly = log_saving(team_id=asked.team.pk, saving=saving, actor=asked.actor)
        attempt = self._store_files(assembly)
        use = self._store_use(assembly)
        log.info(
            "agent_context_built",
            assembly_id=assembly.pk,
            task_id=asked.task.pk,
            phase=asked.data.phase,
            tokens=self.composed.tokens,
            sections={section.name: section.tokens for section in self.composed.sections},
        )
        return replace(
            self.draft(), assembly=assembly, attempt=attempt, use=use, full_tokens=saving.tokens_before
        )

    def saving(self, assembly_ms: float) -> Saving:
        asked, full = self.asked, self.full
        profile = asked.profile
        return Saving(
            kind=Kind.AGENT,
            before=full,
            after=self.composed.step,
            tokens_before=asked.counter.count(full) if full else None,
            tokens_after=self.composed.tokens,
            tokens_available=self.composed.budget_tokens,
            counter=asked.counter,
            assembly_ms=assembly_ms,
            phase=profile.value.phase,
            model=asked.data.model,
            task_id=asked.task.pk,
            truncated=bool(self.composed.trimmed),
            details=self._details(),
            warnings=self.warnings,
            config={
                **profile.value.to_json(),
                "fields": list(asked.fields),
                "budget_tokens": self.composed.budget_tokens,
                "phase_budget_tokens": profile.value.budget_tokens,
                "version": profile.version,
            },
            request={
                "phase": profile.value.phase,
                "asked_phase": asked.data.phase,
                "handoff": self.handoff,
                "task": asked.task_text,
                "repository": asked.repository_name,
                "space": asked.data.space,
                "as_of": asked.data.as_of.isoformat() if asked.data.as_of else None,
                "budget": asked.data.budget,
                "receiver": asked.data.receiver,
            },
            record_ids=tuple(entry["id"] for entry in self.entries),
        )

    def _details(self) -> dict[str, object]:
        """Return the ledger: by section, and of the records with the line that each has in the text."""
        lines = self.composed.step.last_lines_of("docs")
        names = self.gathered.candidates.ids("docs")
        at = dict(zip(names, lines, strict=False))
        kept = [entry["id"] for entry in self.entries if entry["kept"]]
        return {
            "sections": [section.to_json() for section in self.composed.sections],
            "trimmed": [cut._asdict() for cut in self.composed.trimmed],
            "candidates": pack_entries(self.entries),
            "record_lines": {record_id: at[record_name(record_id)] for record_id in kept},
        }

    def _store_files(self, assembly: Assembly) -> Attempt | None:
        """Store the failed attempt, if there is one, and the files that the receiver has now."""
        asked, planned = self.asked, self.asked.planned
        if planned:
            after = files_after(asked.known, self.composed, planned)
            return planned.store(assembly, asked.actor, sent=after)
        hold_team(asked.team.pk)
        task = Task.objects.select_for_update(no_key=True).get(pk=asked.task.pk)
        if task.is_open and self.composed.step.context.files:
            known = load_receiver_files(task, asked.data.receiver)
            store_receiver_files(task, asked.data.receiver, known, files_after(known, self.composed, None))
            task.expires_at = files_expiry()
            task.save(update_fields=["expires_at", "updated_at"])
        return None

    def _store_use(self, assembly: Assembly) -> StrategyUse | None:
        """Record the hint if it is in the text."""
        asked, hint = self.asked, self.gathered.hint
        if hint is None or not self.composed.kept(HINT):
            return None
        data = HintIn(
            task=asked.task.description,
            repository=asked.repository_name,
            task_id=asked.task.pk,
            assembly_id=assembly.pk,
        )
        return record_use(hint, data, asked.actor)


def _send_nothing(asked: Asked, planned: PlannedAttempt) -> StepResult:
    """Store the failed attempt. The agent waits or stops, so it is sent no context."""
    attempt = planned.store(planned.log(asked.actor), asked.actor, sent=planned.known)
    plan = planned.retry.plan
    if plan.action == "stop":
        warning = ContextWarning(TASK_STOPPED, planned.retry.error or "")
    else:
        message = f"Wait {plan.wait_seconds} seconds, then repeat the same plan. Nothing new is sent."
        warning = ContextWarning(TASK_WAITS, message)
    return StepResult(
        asked=asked,
        text="",
        sections=(),
        certificate=Certificate.of("", 0, asked.counter),
        warnings=(warning,),
        attempt=attempt,
    )
