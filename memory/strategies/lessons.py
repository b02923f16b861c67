"""Learns from a task that has ended: a strategy, decisions, error patterns."""

from typing import TypedDict

from contextopt.agents.completions import Completion
from contextopt.agents.models import Task
from contextopt.engine.agents.plans import extract_successful_steps
from contextopt.engine.agents.taskpatterns import detect_task_pattern
from contextopt.engine.text.lexical import detect_language
from memory.memories.models import STRATEGY, Memory, TrustLevel
from memory.strategies.credits import settle_uses
from memory.strategies.inputs import CompletionIn, LessonIn
from memory.strategies.strategies import Success, store_strategy

QUALITY_NEEDED = 7


class Stored(TypedDict):
    """A memory created from a report."""

    id: int
    memory_type: str
    content: str


class NotStored(TypedDict):
    """A type of memory that was not created, and why."""

    memory_type: str
    reason: str


class Learned(TypedDict):
    """The result of learning; pattern and strategy are None if there was nothing to learn."""

    pattern: str | None
    strategy_id: int | None
    stored: list[Stored]
    not_stored: list[NotStored]


def learn_from(completion: Completion) -> Learned:
    """Store the lessons of a completion; return what was stored of each type, or why not.

    It runs in the caller's transaction, which stores all or nothing.
    """
    report = CompletionIn.model_validate(completion.report)
    task, actor = completion.task, completion.created_by
    pattern = detect_task_pattern(task.description)
    steps = extract_successful_steps(report.outcomes, report.plan_text())
    attempts, repository = count_attempts(report, task), report.repository or task.repository
    # When two similar strategies are learned at once, the second waits here and finds the first.
    completion.team.lock()
    failure = why_no_success(report, attempts=attempts)
    settle_uses(completion=completion, pattern=pattern, repository=repository, failure=failure)
    stored: list[Memory] = []
    not_stored: list[NotStored] = []
    strategy_id: int | None = None
    if reason := failure or ("" if steps else "no step of its plan succeeded"):
        not_stored.append(NotStored(memory_type=STRATEGY, reason=reason))
    else:
        success = Success(
            task=task,
            pattern=pattern,
            steps=steps,
            quality_score=quality_of(report),
            files_changed=tuple(report.files_changed),
            model=report.model,
            repository=repository,
        )
        stored.append(store_strategy(team_id=completion.team_id, success=success, actor=actor))
        strategy_id = stored[0].pk
    for memory_type, lessons in (("decision", report.decisions), ("error_pattern", report.error_patterns)):
        stored += [_store_lesson(completion, repository, memory_type, lesson) for lesson in lessons]
        if not lessons:
            not_stored.append(NotStored(memory_type=memory_type, reason="none given"))
    return Learned(
        pattern=pattern,
        strategy_id=strategy_id,
        stored=[Stored(id=m.pk, memory_type=m.memory_type, content=m.content) for m in stored],
        not_stored=not_stored,
    )


def count_attempts(report: CompletionIn, task: Task) -> int:
    """Return the number of attempts that a task took.

    It is at least what the server recorded and what the report's own steps show. A caller may report more:
    its agent may have tried again without telling the server.
    """
    # A recorded attempt is one that failed; the one that ended the task follows.
    return max(task.attempts.count() + 1, report.tries, report.total_attempts)


def why_no_success(report: CompletionIn, *, attempts: int) -> str:
    """Return why a task is no success for strategies, or an empty text if it is one."""
    if report.outcome != "completed":
        return "the task is impossible" if report.outcome == "impossible" else "the task failed"
    if attempts != 1:
        return f"it took {attempts:,} attempts; only plans that succeed at the first become strategies"
    if quality_of(report) < QUALITY_NEEDED:
        return f"its quality was {quality_of(report):g}; a strategy needs at least {QUALITY_NEEDED}"
    return ""


def quality_of(report: CompletionIn) -> float:
    """Return the quality of the result; 0 if none is given, as only for tasks that were not completed."""
    return report.quality_score or 0.0


def _store_lesson(completion: Completion, repository: str, memory_type: str, lesson: LessonIn) -> Memory:
    return Memory.objects.create(
        team_id=completion.team_id,
        task=completion.task,
        content=lesson.content,
        memory_type=memory_type,
        category=lesson.category or memory_type,
        tags=lesson.tags,
        repository=repository,
        trust_level=TrustLevel.AGENT,
        language=detect_language(lesson.content),
        created_by=completion.created_by,
    )
