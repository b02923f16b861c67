"""Background jobs of memory. Each is a bounded batch and safe to run twice."""

from datetime import timedelta
from typing import Any

from celery import shared_task
from django.db.models import QuerySet
from django.utils import timezone

from contextopt.locks import Lock, only_here, unless_deleted
from contextopt.people.models import Team
from memory.backtests.backtests import BACKTESTS
from memory.backtests.models import Backtest
from memory.memories.purge import purge_due
from memory.questions.evaluations import EVALUATIONS
from memory.questions.models import Evaluation
from memory.review.queue import fill_queue
from memory.strategies.reports import learn_pending

# Short, because one worker runs all jobs except the chat's.
SECONDS = 3
AT_ONCE = 3
# An evaluation or a backtest without progress for this long has lost its job.
LOST = timedelta(seconds=30)


@shared_task
def evaluate(evaluation_id: int) -> None:
    """Ask some questions of an evaluation, and leave the rest to the next run."""
    with unless_deleted():
        evaluation = Evaluation.objects.select_related("question_set__space").get(pk=evaluation_id)
        if EVALUATIONS.go_on(evaluation, seconds=SECONDS):
            evaluate.delay(evaluation_id)


@shared_task
def resume_evaluations() -> None:
    """Go on with evaluations whose job was lost."""
    for evaluation_id in _lost(Evaluation.objects.running()):
        evaluate(evaluation_id)


@shared_task
def backtest(backtest_id: int) -> None:
    """Compute some contexts of a backtest, and leave the rest to the next run."""
    with unless_deleted():
        found = Backtest.objects.select_related("space", "config").get(pk=backtest_id)
        if BACKTESTS.go_on(found, seconds=SECONDS):
            backtest.delay(backtest_id)


@shared_task
def resume_backtests() -> None:
    """Go on with backtests whose job was lost."""
    for backtest_id in _lost(Backtest.objects.running()):
        backtest(backtest_id)


def _lost(running: QuerySet[Any]) -> list[int]:
    stale = running.filter(worked_at__lt=timezone.now() - LOST).order_by("pk")
    return list(stale.values_list("pk", flat=True)[:AT_ONCE])


@shared_task
def learn_from_completions() -> None:
    """Store lessons that could not be stored when their task ended."""
    learn_pending()


@shared_task
def purge_deleted_memories() -> None:
    """Erase memories that were deleted a month ago. The next run purges any that are left."""
    purge_due(timezone.now())


@shared_task
def fill_review_queues() -> None:
    """Add the items that teams' rules select for review. The next run adds any that are left."""
    with only_here(Lock.FILL_REVIEW_QUEUES) as is_ours:
        if is_ours:
            for team in Team.objects.order_by("pk").iterator():
                with unless_deleted():
                    fill_queue(team, now=timezone.now())
