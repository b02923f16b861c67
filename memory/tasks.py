"""Background jobs of what is learned. Each is a bounded batch that may run twice."""

from celery import shared_task

from contextopt.completing import learn_pending


@shared_task
def learn_from_completions() -> None:
    """Store what could not be stored when its task ended."""
    learn_pending()
