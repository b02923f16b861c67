"""Ends tasks: one write stores the task's state and its report, then strategies are learned from it.

A failure to learn is logged and a job tries again; it never fails the completion.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import DatabaseError, transaction
from django.db.models import F
from django.utils import timezone

from contextopt.agents.completions import LEARN_TRIES_MAX, Completion
from contextopt.agents.models import Task, TaskState
from contextopt.errors import PRODUCT_ERRORS, Conflict, InvalidInput
from contextopt.people.models import Team
from contextopt.sql import find_one
from memory.strategies.inputs import CompletionIn
from memory.strategies.lessons import learn_from

log = structlog.get_logger(__name__)

LEARN_BATCH = 100
REPEATED_WITHIN = timedelta(hours=24)
# The errors that learning may raise.
LEARNING_FAILURES = (DatabaseError, *PRODUCT_ERRORS, OSError)


@dataclass(frozen=True, slots=True)
class CompletionResult:
    """An ended task; `is_new` is false if the same report came before."""

    completion: Completion
    is_new: bool

    def to_json(self) -> dict[str, Any]:
        """Return the answer of the API and the command."""
        completion, task = self.completion, self.completion.task
        learned = completion.learned or {
            "pattern": None,
            "strategy_id": None,
            "stored": [],
            "not_stored": [
                {"memory_type": "all", "reason": f"storing failed and will be retried: {completion.error}"}
            ],
        }
        return {
            "task_id": task.pk,
            "completion_id": completion.pk,
            "state": task.state,
            "quality_score": task.quality_score,
            "completed_at": task.completed_at,
            "is_new": self.is_new,
            "is_pending": completion.learned_at is None,
            **learned,
        }


def complete_task(*, team: Team, data: CompletionIn, actor: str) -> CompletionResult:
    """End a task, keep its report, and learn from it. Repeating the same report changes nothing.

    Without a `task_id`, a report repeats another for a day only: some tasks recur, with the same plan.

    Raises:
        InvalidInput: neither a task nor a description is given, or the plan cannot be read.
        NotFound: the team has no such task.
        Conflict: the task has ended with another report, or as another outcome.
    """
    data.plan_text()
    with transaction.atomic():
        # If the same report comes twice at the same moment, the second waits here for the first.
        team.lock()
        now = timezone.now()
        known = _find_repeated(team, data, now)
        if known is None:
            task = _end_task(team, data, actor)
            known = Completion.objects.create(
                team=team,
                task=task,
                sha256=data.digest() if data.task_id else data.digest(now.date()),
                report=data.model_dump(mode="json"),
                created_by=actor,
            )
            is_new = True
        else:
            is_new = False
    if known.learned_at is None:
        learn(known)
        known.refresh_from_db()
    return CompletionResult(known, is_new)


def _find_repeated(team: Team, data: CompletionIn, now: datetime) -> Completion | None:
    """Return the completion of the same report: of the same task, or of the last 24 hours."""
    reports = Completion.objects.select_related("task").filter(team=team)
    if data.task_id:
        return reports.filter(sha256=data.digest()).first()
    since = now - REPEATED_WITHIN
    # Reports were stored without a day once.
    digests = [data.digest(day) for day in (None, since.date(), now.date())]
    return reports.filter(sha256__in=digests, created_at__gt=since).first()


def _end_task(team: Team, data: CompletionIn, actor: str) -> Task:
    now = timezone.now()
    state = {"state": TaskState(data.outcome), "quality_score": data.quality_score, "completed_at": now}
    if data.task_id is None:
        if not data.description.strip():
            raise InvalidInput.of("description", "is required without task_id")
        return Task.objects.create(
            team=team, description=data.description, repository=data.repository, created_by=actor, **state
        )
    tasks = Task.objects.select_for_update(no_key=True).filter(team=team, pk=data.task_id)
    task = find_one(tasks, f"task {data.task_id}")
    # An attempt may have shown that the task is impossible. Its report can follow.
    is_awaited = task.state == data.outcome == "impossible" and not hasattr(task, "completion")
    if not task.is_open and not is_awaited:
        raise Conflict(f"Task {task.pk} is already {task.state}.")
    for name, value in state.items():
        setattr(task, name, value)
    task.save(update_fields=[*state, "updated_at"])
    return task


def learn(completion: Completion) -> bool:
    """Learn from the completion, once; return whether this call did.

    A failure is logged and kept with the row, and the next try starts from scratch.
    """
    try:
        with transaction.atomic():
            return _learn(completion.pk)
    except LEARNING_FAILURES as error:
        Completion.objects.filter(pk=completion.pk).update(tries=F("tries") + 1, error=str(error)[:2_000])
        log.warning(
            "strategy_store_failed",
            completion_id=completion.pk,
            task_id=completion.task_id,
            error=str(error)[:500],
        )
        return False


def _learn(completion_id: int) -> bool:
    """Learn from the completion under a lock, or do nothing if another worker holds it."""
    held = Completion.objects.select_for_update(skip_locked=True, of=("self",), no_key=True).select_related(
        "task", "team"
    )
    completion = held.filter(pk=completion_id, learned_at=None).first()
    if completion is None:
        return False
    completion.learned, completion.learned_at, completion.error = learn_from(completion), timezone.now(), ""
    completion.save(update_fields=["learned", "learned_at", "error"])
    return True


def learn_pending() -> int:
    """Retry failed completions; return how many are learned now. Those that failed too often are skipped."""
    pending = list(Completion.objects.unlearned()[:LEARN_BATCH])
    done = sum(learn(completion) for completion in pending)
    if pending:
        log.info("completions_learned", tried=len(pending), learned=done, tries_max=LEARN_TRIES_MAX)
    return done
