"""Queues the jobs that a write makes due, by name, so that writers don't import the jobs' modules."""

from typing import Any

from celery import signature
from django.conf import settings
from django.db import transaction

SEND_MESSAGES = "contextopt.tasks.send_messages"
WRITE_BRIEF = "contextopt.tasks.write_brief"
END_RETRY_WAITS = "contextopt.tasks.end_retry_waits"


def run_after_commit(job: str, *args: int, delay_seconds: int = 0) -> None:
    """Queue the job once this transaction is stored.

    If the queue is down, no request fails: the error is logged, and the schedule runs the job.
    """
    delay: dict[str, Any] = {}
    if delay_seconds:
        # With a countdown, a worker would hold the job past the visibility timeout of our own queue.
        delay["countdown" if settings.CELERY_BROKER_URL else "DelaySeconds"] = delay_seconds
    transaction.on_commit(lambda: signature(job, args=args).apply_async(**delay), robust=True)
