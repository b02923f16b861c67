"""Records attempts: what a receiver has → engine → log → what it has now."""

from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from time import perf_counter
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from contextopt.agents.inputs import AttemptIn, FailureIn, RetryIn, present
from contextopt.agents.models import Attempt, AttemptState, Task, TaskState, files_expiry
from contextopt.agents.receivers import load_receiver_files, store_receiver_files
from contextopt.agents.retrysettings import resolve_limits
from contextopt.agents.tasks import lock_task
from contextopt.assemblies.models import FULL_CONTEXT, Assembly, Kind
from contextopt.assemblies.savings import Saving, log_saving
from contextopt.assemblies.tokenfactors import model_warnings
from contextopt.engine.agents.contexts import AgentContext
from contextopt.engine.agents.deltas import ReceiverFiles, fully_sent
from contextopt.engine.agents.retries import (
    UNSENT_ACTIONS,
    FailedAttempt,
    FullRetry,
    RetryContext,
    RetryLimits,
    RetryPlan,
    plan_retry,
    text_files,
)
from contextopt.engine.text.tokens import Counter, Unmarked
from contextopt.errors import Conflict
from contextopt.jobs import END_RETRY_WAITS, run_after_commit

log = structlog.get_logger(__name__)

ENDED_AT_ONCE = 1_000
FULL_REPLAN = "the task, plan and diagnosis in full"


@dataclass(frozen=True, slots=True)
class Retry:
    """A planned retry."""

    failed: FailedAttempt
    plan: RetryPlan
    counter: Counter
    limits: RetryLimits
    assembly_ms: float
    # Without us nothing would have been sent, so nothing is saved.
    is_added: bool = False

    @property
    def is_compared(self) -> bool:
        return self.plan.is_sent and not self.is_added

    @property
    def sent(self) -> RetryContext | FullRetry | None:
        """The text for the receiver, or None if it waits or stops."""
        if not self.plan.is_sent:
            return None
        return self.plan.everything or self.plan.context

    @property
    def baseline(self) -> Unmarked | None:
        """The retry that would be sent without us, or None if nothing is or would be sent."""
        if not self.is_compared:
            return None
        action = self.plan.action
        context = None if action == "replan" else self.failed.context
        return Unmarked(self.failed.in_full(action, context or AgentContext()))

    @property
    def baseline_name(self) -> str:
        return FULL_REPLAN if self.plan.action == "replan" else FULL_CONTEXT

    @property
    def error(self) -> str | None:
        """The reason why there is no retry, or None if there is one."""
        if self.plan.action != "stop":
            return None
        reason = self.failed.diagnosis.reason
        return f"The task is impossible: {reason}" if reason else "The task is impossible."

    def to_json(self) -> dict[str, Any]:
        """Return the API's response. `retry_delta --json` puts the context's fields beside the others."""
        everything = self.plan.everything
        return {
            "retry_context": self.plan.context.to_json(),
            "action": self.plan.action,
            "task": self.plan.task,
            "full_context": everything.context.to_json() if everything else None,
            "wait_seconds": self.plan.wait_seconds,
            "error": self.error,
            "full_context_tokens": self.plan.full_context_tokens,
            "delta_tokens": self.plan.delta_tokens,
            "saved_tokens": self.plan.saved_tokens if self.is_compared else None,
            "saved_percent": self.plan.saved_percent if self.is_compared else None,
        }

    def saving(self, model: str = "", task_id: int | None = None, **request: object) -> Saving:
        files = self.plan.context.changed_files
        return Saving(
            kind=Kind.RETRY,
            before=self.baseline,
            after=self.sent,
            tokens_before=self.plan.full_context_tokens if self.is_compared else None,
            tokens_after=self.plan.delta_tokens,
            tokens_available=None,
            counter=self.counter,
            assembly_ms=self.assembly_ms,
            model=model,
            task_id=task_id,
            truncated=any(file.is_truncated for file in files),
            warnings=model_warnings(self.counter),
            details={
                "baseline": self.baseline_name,
                "changed_files": [
                    {"path": file.path, "kind": file.kind, "is_truncated": file.is_truncated}
                    for file in files
                ],
            },
            request={
                "attempt": self.failed.attempt_number,
                "root_cause": self.failed.diagnosis.root_cause,
                "action": self.plan.action,
                **asdict(self.limits),
                **request,
            },
        )


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """A recorded attempt and what its receiver is sent."""

    attempt: Attempt
    retry: Retry


def plan_delta(*, data: RetryIn, limits: RetryLimits, counter: Counter, is_added: bool = False) -> Retry:
    """Plan a retry without a stored task."""
    retry = _plan(
        data,
        task=data.task,
        number=data.attempt,
        base=fully_sent(present(data.before)),
        current=present(data.after),
        limits=limits,
        counter=counter,
    )
    return replace(retry, is_added=is_added)


def log_delta(*, team_id: int, retry: Retry, actor: str) -> Assembly | None:
    """Log a retry, unless it is stopped: then nothing is sent and nothing saved."""
    assembly = None
    if retry.plan.action != "stop":
        assembly = log_saving(team_id=team_id, saving=retry.saving(), actor=actor)
    _log_event(retry, assembly)
    return assembly


@dataclass(frozen=True, slots=True)
class PlannedAttempt:
    """A failed attempt with its answer, not stored yet. The task's row is locked."""

    task: Task
    data: AttemptIn
    retry: Retry
    known: ReceiverFiles

    def log(self, actor: str) -> Assembly | None:
        """Log the answer, unless the task is stopped: then nothing is sent and nothing saved."""
        if self.retry.plan.action == "stop":
            return None
        saving = self.retry.saving(self.data.model, task_id=self.task.pk, receiver=self.data.receiver)
        return log_saving(team_id=self.task.team_id, saving=saving, actor=actor)

    def store(self, assembly: Assembly | None, actor: str, *, sent: ReceiverFiles | None = None) -> Attempt:
        """Store the attempt, and what its receiver has now: all that was planned, or else `sent`."""
        files = self.retry.plan.receiver_files if sent is None else sent
        store_receiver_files(self.task, self.data.receiver, self.known, files)
        attempt = _store_attempt(self.task, self.data, self.retry, assembly, actor)
        _log_event(self.retry, assembly, task_id=self.task.pk, receiver=self.data.receiver)
        return attempt


@transaction.atomic
def record_attempt(
    *, team_id: int, task_id: int, data: AttemptIn, counter: Counter, actor: str
) -> AttemptResult:
    """Number a failed attempt, decide what its receiver is sent next, and store that.

    Raises:
        NotFound, Conflict: see `plan_attempt`.
    """
    planned = plan_attempt(team_id=team_id, task_id=task_id, data=data, counter=counter)
    return AttemptResult(planned.store(planned.log(actor), actor), planned.retry)


def plan_attempt(
    *, team_id: int, task_id: int, data: AttemptIn, counter: Counter, has_all_files: bool = True
) -> PlannedAttempt:
    """Number a failed attempt and decide what its receiver is sent next.

    The task's row is locked, so that of two concurrent attempts the second builds on the first. A file that
    is not posted counts as deleted, or as unchanged without `has_all_files`.

    Raises:
        NotFound: the team has no such task.
        Conflict: the task is not open, or `attempt` is not the next number.
    """
    task = lock_task(team_id, task_id, if_closed="it accepts no more attempts")
    known = load_receiver_files(task, data.receiver)
    base = known | fully_sent(present(data.before))
    latest: int | None = task.attempts.aggregate(latest=Max("number"))["latest"]
    number = (latest or 0) + 1
    if data.attempt not in {None, number}:
        raise Conflict(f"The next attempt of task {task.pk} is {number}, not {data.attempt}.")
    retry = _plan(
        data,
        task=task.description,
        number=number,
        base=base if has_all_files else {path: base[path] for path in base if path in data.files},
        current=present(data.files),
        limits=resolve_limits(team_id, data),
        counter=counter,
    )
    return PlannedAttempt(task, data, retry, known)


def latest_retry(task: Task, receiver: str) -> Attempt | None:
    """Return the receiver's latest attempt whose answer sent something."""
    sent = task.attempts.filter(receiver=receiver).exclude(action__in=UNSENT_ACTIONS)
    return sent.order_by("-number").first()


def _plan(
    data: FailureIn,
    *,
    task: str,
    number: int,
    base: ReceiverFiles,
    current: dict[str, str],
    limits: RetryLimits,
    counter: Counter,
) -> Retry:
    started = perf_counter()
    failed = FailedAttempt(
        task=task,
        plan=data.plan_value(),
        error=data.error or "",
        diagnosis=data.diagnosis.to_value(),
        attempt_number=number,
        context=data.context_value() or text_files(current),
    )
    plan = plan_retry(failed, base, current, counter, limits=limits)
    return Retry(failed, plan, counter, limits, (perf_counter() - started) * 1_000)


def _store_attempt(
    task: Task, data: AttemptIn, retry: Retry, assembly: Assembly | None, actor: str
) -> Attempt:
    plan, now = retry.plan, timezone.now()
    if plan.action == "stop":
        task.state = TaskState.IMPOSSIBLE
    if plan.wait_seconds:
        # One second more, since the clocks of the database and the queue may differ.
        run_after_commit(END_RETRY_WAITS, delay_seconds=plan.wait_seconds + 1)
    task.expires_at = files_expiry()
    task.save(update_fields=["state", "expires_at", "updated_at"])
    return Attempt.objects.create(
        task=task,
        number=retry.failed.attempt_number,
        receiver=data.receiver,
        root_cause=retry.failed.diagnosis.root_cause,
        diagnosis=retry.failed.diagnosis.to_json(),
        plan=data.plan or "",
        error=retry.failed.error,
        action=plan.action,
        state=AttemptState.WAITING if plan.wait_seconds else AttemptState.READY,
        available_at=now + timedelta(seconds=plan.wait_seconds),
        retry_context=plan.context.to_json(),
        full_tokens=plan.full_context_tokens,
        delta_tokens=plan.delta_tokens,
        changed_files=len(plan.context.changed_files),
        encoding=retry.counter.name,
        assembly=assembly,
        created_by=actor,
        created_at=now,
    )


def end_waits() -> int:
    """Mark attempts whose wait is over as ready; return how many. Repeating it does nothing."""
    with transaction.atomic():
        due = Attempt.objects.due().select_for_update(skip_locked=True, no_key=True)
        ended = list(due.values_list("pk", "task_id", "number")[:ENDED_AT_ONCE])
        Attempt.objects.filter(pk__in=[pk for pk, _, _ in ended]).update(state=AttemptState.READY)
    for _, task_id, number in ended:
        log.info("retry_wait_ended", task_id=task_id, attempt=number)
    return len(ended)


def _log_event(retry: Retry, assembly: Assembly | None, **where: object) -> None:
    plan = retry.plan
    log.info(
        "retry_delta_computed",
        assembly_id=assembly.pk if assembly else None,
        attempt=retry.failed.attempt_number,
        full_context_tokens=plan.full_context_tokens,
        delta_tokens=plan.delta_tokens,
        saved_tokens=plan.saved_tokens,
        saved_percent=plan.saved_percent,
        changed_files_count=len(plan.context.changed_files),
        root_cause=retry.failed.diagnosis.root_cause,
        **where,
    )
