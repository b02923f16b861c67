"""The dashboard's background jobs."""

from celery import shared_task

# Imported for its effect: the processes that do jobs note that they live.
from dashboard import beats as beats
from dashboard.rollups import keep_rollups


@shared_task
def fold_assemblies() -> None:
    """Fold new assemblies into the rollups."""
    keep_rollups()
