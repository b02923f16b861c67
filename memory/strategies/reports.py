"""The way in for ended tasks: the task's state and its report are one write, and then others learn from it.

Apps that learn register a function. One that fails is logged and tried again by a job; it never fails the
completion.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import structlog
from django.db import DatabaseError, transaction
from django.db.models import F
from django.utils import timezone

from contextopt.agents.completions import LEARN_TRIES_MAX
from contextopt.engine.text.errors import EngineError
from contextopt.errors import Conflict, ContextoptError, InvalidInput, NotFound
from contextopt.models import Completion, Task, TaskState, Team
from memory.strategies.inputs import CompletionIn

log = structlog.get_logger(__name__)

LEARN_BATCH = 100
# What a learner may fail with.
LEARNING_FAILURES = (DatabaseError, ContextoptError, EngineError, OSError)


class Stored(TypedDict):
    """A memory that was made of a completion."""

    id: int
    memory_type: str
    content: str


class NotStored(TypedDict):
    """What no memory was made of, and why."""

    memory_type: str
    reason: str


class Learned(TypedDict):
    """What became of a completion; of no pattern and no strategy where nothing learns."""

    pattern: str | None
    strategy_id: int | None
    stored: list[Stored]
    not_stored: list[NotStored]


type Learner = Callable[[Completion], Learned]

_learners: list[Learner] = []


def register_learner(learner: Learner) -> None:
    """Have a function called with every completion, inside a transaction of its own."""
    if learner not in _learners:
        _learners.append(learner)


@dataclass(frozen=True, slots=True)
class CompletionResult:
    """An ended task; `is_new` is false where the same report had come before."""

    completion: Completion
    is_new: bool

    def to_json(self) -> dict[str, Any]:
        """Return the answer of API and command."""
        completion, task = self.completion, self.completion.task
        learned = completion.learned or {
            "pattern": None,
            "strategy_id": None,
            "stored": [],
            "not_stored": [
                {"memory_type": "all", "reason": f"it failed and will be tried again: {completion.error}"}
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
    """End a task, keep its report, and learn from it. The same report again changes nothing.

    Raises:
        InvalidInput: neither a task nor a description is given, or the plan cannot be read.
        NotFound: the team has no such task.
        Conflict: the task has ended with another report.
    """
    data.plan_text()
    digest = data.digest()
    with transaction.atomic():
        # Of the same report at the same moment the second waits here for the first.
        Team.objects.select_for_update(no_key=True).get(pk=team.pk)
        known = Completion.objects.select_related("task").filter(team=team, sha256=digest).first()
        if known is None:
            task = _end_task(team, data, actor)
            known = Completion.objects.create(
                team=team,
                task=task,
                sha256=digest,
                report=data.model_dump(mode="json"),
                created_by=actor[:160],
            )
            is_new = True
        else:
            is_new = False
    if known.learned_at is None:
        learn(known)
        known.refresh_from_db()
    return CompletionResult(known, is_new)


def _end_task(team: Team, data: CompletionIn, actor: str) -> Task:
    now = timezone.now()
    state = {
        "state": TaskState(data.outcome),
        "quality_score": data.quality_score,
        "completed_at": now,
    }
    if data.task_id is None:
        if not data.description.strip():
            raise InvalidInput.of("description", "is needed where no task_id is given")
        return Task.objects.create(
            team=team,
            description=data.description,
            repository=data.repository,
            created_by=actor[:160],
            **state,
        )
    task = Task.objects.select_for_update(no_key=True).filter(team=team, pk=data.task_id).first()
    if task is None:
        raise NotFound(f"There is no task {data.task_id}.")
    if not task.is_open:
        raise Conflict(f"Task {task.pk} is {task.state} already, by another report.")
    for name, value in state.items():
        setattr(task, name, value)
    task.save(update_fields=[*state, "updated_at"])
    return task


def learn(completion: Completion) -> bool:
    """Have every learner learn from the completion, once; return whether it is learned.

    A failure is logged and kept with the row, and the next try begins from nothing.
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
    """Hold the row meanwhile: what another worker is at is left to it."""
    held = Completion.objects.select_for_update(skip_locked=True, of=("self",), no_key=True).select_related(
        "task", "team"
    )
    completion = held.filter(pk=completion_id, learned_at=None).first()
    if completion is None:
        return False
    learned = Learned(pattern=None, strategy_id=None, stored=[], not_stored=[])
    for learner in _learners:
        found = learner(completion)
        learned = Learned(
            pattern=found["pattern"] or learned["pattern"],
            strategy_id=found["strategy_id"] or learned["strategy_id"],
            stored=learned["stored"] + found["stored"],
            not_stored=learned["not_stored"] + found["not_stored"],
        )
    completion.learned, completion.learned_at, completion.error = learned, timezone.now(), ""
    completion.save(update_fields=["learned", "learned_at", "error"])
    return True


def learn_pending() -> int:
    """Try again what failed; return how many are learned now. Those that failed too often are left."""
    pending = list(Completion.objects.unlearned()[:LEARN_BATCH])
    done = sum(learn(completion) for completion in pending)
    if pending:
        log.info("completions_learned", tried=len(pending), learned=done, tries_max=LEARN_TRIES_MAX)
    return done
