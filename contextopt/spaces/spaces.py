"""Creates, changes and deletes spaces, and erases what was copied from deleted ones."""

from collections.abc import Callable
from datetime import datetime

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.utils import timezone

from contextopt.errors import Conflict, NotFound
from contextopt.locks import hold_team, retry_deadlocks
from contextopt.people.audit import SYSTEM, erase_texts_of, note_event
from contextopt.people.models import Team
from contextopt.search.models import SearchCorpus
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.inputs import SpaceIn, SpacePatch
from contextopt.spaces.models import PURGED, Record, Space
from contextopt.spaces.records import SEARCHABLE, lock_space
from contextopt.spaces.storedresponses import erase_about_space
from contextopt.sql import execute, id_array


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


# Records that are deleted together, with their revisions and vectors.
BATCH = 2_000
ERASED_IN_LOG = ("description", "categories")

type Eraser = Callable[[Space], object]

_erasers: list[Eraser] = []


def register_space_eraser(erase: Eraser) -> None:
    """Call this for each space that is deleted, to erase what is kept of its text outside the space.

    It is called before the deletion, and again after it, in case something was stored in between. It works in
    batches and may be called again for the same space.
    """
    _erasers.append(erase)


def delete_space(*, space: Space, actor: str = SYSTEM) -> None:
    """Delete the space and everything it owns, and erase its text everywhere else. Idempotent."""
    if not Space.objects.filter(pk=space.pk).exists():
        # Its copies may be those of a new space with the same slug.
        return
    _erase_copies(space)
    try:
        while _delete_records(space):
            pass
    except NotFound:
        # Someone else was faster.
        return
    _delete_rest(space, actor)
    _erase_copies(space)


def _erase_copies(space: Space) -> None:
    for erase in (erase_about_space, *_erasers):
        erase(space)


@retry_deadlocks
def _delete_records(space: Space) -> int:
    """Delete some records of the space; return their number. Its writers wait for this batch only."""
    lock_space(space)
    ids = list(Record.objects.filter(space=space).order_by("pk").values_list("pk", flat=True)[:BATCH])
    entries = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(Record))
    entries.filter(object_id__in=[str(pk) for pk in ids]).update(object_repr=PURGED)
    return execute("DELETE FROM contextopt_record WHERE id = ANY(%s::bigint[])", [id_array(ids)])


@retry_deadlocks
def _delete_rest(space: Space, actor: str) -> None:
    hold_team(space.team_id)
    if not Space.objects.filter(pk=space.pk).delete()[0]:
        return
    SearchCorpus.objects.of(SEARCHABLE.name, space.pk).delete()
    erase_texts_of(team_id=space.team_id, subject=space.slug, action="space.changed", names=ERASED_IN_LOG)
    note_event(team_id=space.team_id, actor=actor, action="space.deleted", subject=space.slug)
