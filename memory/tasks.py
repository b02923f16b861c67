"""Background jobs of memory. Each is a bounded batch and safe to run twice."""

from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from contextopt.locks import Lock, only_here, unless_deleted
from contextopt.models import Team
from memory.backtests import backtests
from memory.models import Backtest, Evaluation, EvaluationState
from memory.questions.evaluations import work_on
from memory.review.queue import fill_queue
from memory.strategies.reports import learn_pending

# Short, because one worker runs all jobs except the chat's.
EVALUATION_SECONDS = 3
EVALUATIONS_AT_ONCE = 3
BACKTEST_SECONDS = 3
BACKTESTS_AT_ONCE = 3
# Nobody works on an evaluation or a backtest that has stood still for so long.
LOST = timedelta(seconds=30)


@shared_task
def evaluate(evaluation_id: int) -> None:
    """Ask some questions of an evaluation, and leave the rest to the next run."""
    with unless_deleted():
        evaluation = Evaluation.objects.select_related("question_set__space").get(pk=evaluation_id)
        if work_on(evaluation, seconds=EVALUATION_SECONDS):
            evaluate.delay(evaluation_id)


@shared_task
def resume_evaluations() -> None:
    """Go on with evaluations whose job was lost."""
    lost = timezone.now() - LOST
    running = Evaluation.objects.filter(state=EvaluationState.RUNNING, worked_at__lt=lost).order_by("pk")
    for evaluation_id in running.values_list("pk", flat=True)[:EVALUATIONS_AT_ONCE]:
        evaluate(evaluation_id)


@shared_task
def backtest(backtest_id: int) -> None:
    """Compute some contexts of a backtest, and leave the rest to the next run."""
    with unless_deleted():
        found = Backtest.objects.select_related("space", "config").get(pk=backtest_id)
        if backtests.work_on(found, seconds=BACKTEST_SECONDS):
            backtest.delay(backtest_id)


@shared_task
def resume_backtests() -> None:
    """Go on with backtests whose job was lost."""
    running = Backtest.objects.running().filter(worked_at__lt=timezone.now() - LOST).order_by("pk")
    for backtest_id in running.values_list("pk", flat=True)[:BACKTESTS_AT_ONCE]:
        backtest(backtest_id)


@shared_task
def learn_from_completions() -> None:
    """Store lessons that could not be stored when their task ended."""
    learn_pending()


@shared_task
def fill_review_queues() -> None:
    """Add the items that teams' rules select for review. Whatever is left over comes next time."""
    with only_here(Lock.FILL_REVIEW_QUEUES) as is_ours:
        if is_ours:
            for team in Team.objects.order_by("pk").iterator():
                with unless_deleted():
                    fill_queue(team, now=timezone.now())
