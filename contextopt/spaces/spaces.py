"""Creates and changes spaces. A new space gets a first version of its settings."""

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from contextopt.errors import Conflict
from contextopt.lookups import find_one
from contextopt.people.audit import SYSTEM, note_event
from contextopt.people.models import Team
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.inputs import SpaceIn, SpacePatch
from contextopt.spaces.models import Space


def find_space(team_id: int, slug: str) -> Space:
    """Return the team's space with its counters.

    Raises:
        NotFound: the team has no space with this slug, whatever other teams have.
    """
    return find_one(Space.objects.with_counts().filter(team_id=team_id, slug=slug), f"space {slug!r}")


def create_space(
    *, team: Team, data: SpaceIn, actor: str, is_demo: bool = False, at: datetime | None = None
) -> Space:
    """Add a space with the first version of its settings.

    `at` backdates the version and the log entry, for example data.

    Raises:
        Conflict: the team has a space with this slug.
    """
    with transaction.atomic():
        space, is_new = Space.objects.get_or_create(
            team=team,
            slug=data.slug,
            defaults={
                "name": data.name or data.slug,
                "description": data.description,
                "categories": data.categories,
                "is_demo": is_demo,
            },
        )
        if not is_new:
            raise Conflict(f"A space with the slug {data.slug!r} already exists.")
        ContextConfig.objects.publish(
            space=space, created_by=actor, note="defaults", created_at=at or timezone.now()
        )
        note_event(team_id=team.pk, actor=actor, action="space.created", subject=data.slug, at=at)
    return space


@transaction.atomic
def update_space(*, space: Space, changes: SpacePatch, actor: str = SYSTEM) -> Space:
    """Change the given fields of the space."""
    fields = changes.model_dump(exclude_unset=True)
    # An admin form has already changed the object, so read the old values from the database.
    before = Space.objects.filter(pk=space.pk).values("id", *fields).get()
    for name, value in fields.items():
        setattr(space, name, value)
    if any(before[name] != value for name, value in fields.items()):
        space.save(update_fields=list(fields))
        note_event(
            team_id=space.team_id,
            actor=actor,
            action="space.changed",
            subject=space.slug,
            before={name: before[name] for name in fields},
            after=fields,
        )
    return space
