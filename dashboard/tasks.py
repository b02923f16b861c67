"""The dashboard's background jobs."""

from celery import shared_task

from dashboard.rollups import keep_rollups


@shared_task
def fold_assemblies() -> None:
    """Fold new assemblies into the rollups. Costs one small query when there are none."""
    keep_rollups()
