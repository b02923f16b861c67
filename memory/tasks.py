"""Background jobs of memory. Each is a bounded batch and safe to run twice."""

from celery import shared_task
from django.utils import timezone

from contextopt.locks import Lock, only_here, unless_deleted
from contextopt.models import Team
from memory.review.queue import fill_queue
from memory.strategies.reports import learn_pending


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
