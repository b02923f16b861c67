"""What a task that has ended teaches: a strategy, decisions, error patterns."""

from django.db.models import Sum

from contextopt.completing import Learned, NotStored, Stored
from contextopt.completioninputs import CompletionIn, LessonIn
from contextopt.engine.language import detect_language
from contextopt.engine.plans import extract_successful_steps
from contextopt.engine.taskpatterns import detect_task_pattern
from contextopt.models import Completion, Task
from memory.models import Memory, TrustLevel
from memory.models.memories import STRATEGY
from memory.strategies import Success, credit_task, store_strategy

QUALITY_NEEDED = 7


def learn_from(completion: Completion) -> Learned:
    """Store the lessons of a completion; says of each kind what was stored, or why not.

    Runs inside a transaction of its own: it stores all or nothing.
    """
    report = CompletionIn.model_validate(completion.report)
    task, actor = completion.task, completion.created_by
    pattern = detect_task_pattern(task.description)
    steps = extract_successful_steps(report.outcomes, report.plan_text())
    saved = report.tokens_saved or _saved_by_retries(task)
    credit_task(task=task, tokens_saved=saved)
    stored: list[Memory] = []
    not_stored: list[NotStored] = []
    strategy_id: int | None = None
    if reason := why_no_strategy(report, steps, attempts=count_attempts(report, task)):
        not_stored.append(NotStored(memory_type=STRATEGY, reason=reason))
    else:
        success = Success(
            task=task,
            pattern=pattern,
            steps=steps,
            quality_score=report.quality_score,
            files_changed=tuple(report.files_changed),
            model=report.model,
            tokens_saved=saved,
            repository=_repository(report, task),
        )
        stored.append(store_strategy(team_id=completion.team_id, success=success, actor=actor))
        strategy_id = stored[0].pk
    for memory_type, lessons in (("decision", report.decisions), ("error_pattern", report.error_patterns)):
        stored += [_store_lesson(completion, report, memory_type, lesson) for lesson in lessons]
        if not lessons:
            not_stored.append(NotStored(memory_type=memory_type, reason="none was given"))
    return Learned(
        pattern=pattern,
        strategy_id=strategy_id,
        stored=[Stored(id=m.pk, memory_type=m.memory_type, content=m.content) for m in stored],
        not_stored=not_stored,
    )


def count_attempts(report: CompletionIn, task: Task) -> int:
    """Return the attempts that a task took.

    Nobody can report fewer than the server recorded, nor fewer than the report's own steps tell. A caller may
    report more: its agent may have tried again without telling the server.
    """
    # A recorded attempt is one that failed; the one that ended the task follows.
    return max(task.attempts.count() + 1, report.tries, report.total_attempts)


def why_no_strategy(report: CompletionIn, steps: tuple[str, ...], *, attempts: int) -> str:
    """Return why a completion gives no strategy; nothing where it gives one."""
    if report.outcome != "completed":
        return "the task failed"
    if attempts != 1:
        return f"it took {attempts:,} attempts, and a strategy is what succeeds at the first"
    if report.quality_score < QUALITY_NEEDED:
        return f"its quality was {report.quality_score:g}, and a strategy needs {QUALITY_NEEDED}"
    if not steps:
        return "its plan has no steps that succeeded"
    return ""


def _repository(report: CompletionIn, task: Task) -> str:
    return report.repository or task.repository


def _saved_by_retries(task: Task) -> int:
    """Return what the task's retries were spared, 0 where they cost more."""
    sums = task.attempts.aggregate(full=Sum("full_tokens"), delta=Sum("delta_tokens"))
    return max(0, (sums["full"] or 0) - (sums["delta"] or 0))


def _store_lesson(completion: Completion, report: CompletionIn, memory_type: str, lesson: LessonIn) -> Memory:
    return Memory.objects.create(
        team_id=completion.team_id,
        task=completion.task,
        content=lesson.content,
        memory_type=memory_type,
        category=lesson.category or memory_type,
        tags=lesson.tags,
        repository=_repository(report, completion.task),
        trust_level=TrustLevel.AGENT,
        language=detect_language(lesson.content),
        created_by=completion.created_by,
    )
