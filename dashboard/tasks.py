"""The dashboard's background jobs."""

from celery import shared_task

from dashboard.health import note_beat
from dashboard.models import Duty
from dashboard.rollups import keep_rollups


@shared_task
def fold_assemblies() -> None:
    """Fold new assemblies into the rollups. It shows that the worker lives, too."""
    keep_rollups()
    note_beat(Duty.JOBS)


@shared_task
def note_chat_worker() -> None:
    """Show that what waits for a model is being worked on."""
    note_beat(Duty.CHAT)
