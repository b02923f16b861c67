"""Jobs that a write makes due. They are sent by name, since what does them stands above what writes."""

from typing import Any

from celery import signature
from django.conf import settings
from django.db import transaction

SEND_MESSAGES = "contextopt.tasks.send_messages"
WRITE_BRIEF = "contextopt.tasks.write_brief"
END_RETRY_WAITS = "contextopt.tasks.end_retry_waits"


def run_after_commit(job: str, *args: int, delay_seconds: int = 0) -> None:
    """Queue the job as soon as this transaction is stored.

    A queue that is down fails no request: the error is logged, and the schedule does what is due.
    """
    delay: dict[str, Any] = {}
    if delay_seconds:
        # A countdown would hold the job back in a worker, past the visibility timeout of our own queue.
        delay["countdown" if settings.CELERY_BROKER_URL else "DelaySeconds"] = delay_seconds
    transaction.on_commit(lambda: signature(job, args=args).apply_async(**delay), robust=True)
