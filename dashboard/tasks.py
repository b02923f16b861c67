"""The dashboard's background jobs."""

from celery import shared_task
from django.utils import timezone

from contextopt.assemblies.models import DEMO_ACTOR
from contextopt.locks import unless_deleted
from contextopt.people.models import Team
from dashboard import demo
from dashboard.rollups.fold import keep_rollups


@shared_task
def fold_assemblies() -> None:
    """Fold new assemblies into the rollups."""
    keep_rollups()


# Earlier versions queued the job under this name.
@shared_task(name="contextopt.tasks.load_demo")
def load_demo(team_id: int) -> None:
    """Fill the team's demo spaces. Loading twice changes nothing."""
    with unless_deleted():
        demo.load_demo(Team.objects.get(pk=team_id), now=timezone.now(), actor=DEMO_ACTOR)
