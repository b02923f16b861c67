"""Example spaces, clearly marked, with assemblies that were really made.

The texts were written for this product. The same moment and the same database give the same demo.
"""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.db import transaction

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.models import DEMO_ACTOR, Assembly
from contextopt.people.audit import SYSTEM
from contextopt.people.models import Team
from contextopt.search.embedders.values import EmbeddingUnavailable
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.spaces.configs import publish_settings
from contextopt.spaces.inputs import RecordIn, SpaceIn
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import SEARCHABLE, upsert_records
from contextopt.spaces.recordviews import view_record
from contextopt.spaces.spaces import create_space, delete_space
from dashboard.demo.memory import MEMORY
from dashboard.demo.proof import CONVERSATIONS, PROOF, QUESTIONS
from dashboard.demo.stories import Stage, Story, read_story, tell
from dashboard.demo.tasks import HANDOFFS, REPOSITORY, TIMELINE

log = structlog.get_logger(__name__)

STORIES = tuple(map(read_story, ("support", "engineering", "research")))
CHAPTERS = (CONVERSATIONS, HANDOFFS, MEMORY, REPOSITORY, TIMELINE, PROOF)
# Share of requests that ask a question.
ASKED = 0.3
# The settings are tightened after the first 1/TIGHTENED of the assemblies.
TIGHTENED = 7
RECORD_DAYS = 45
ASSEMBLY_DAYS = 14
ASSEMBLIES_A_DAY = 40
MODELS = ("gpt-4o-mini", "gpt-4o-mini", "gpt-4o")
# Working hours; hours in the middle of the day are listed more often.
HOURS = (7, 8, 8, 9, 9, 9, 10, 10, 11, 11, 12, 13, 13, 14, 14, 14, 15, 15, 16, 17, 19, 21)


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """The contents of the demo, or its former contents when it was removed."""

    spaces: tuple[str, ...]
    records: int
    assemblies: int
    more: dict[str, int]

    def __str__(self) -> str:
        counts = {"records": self.records, "assemblies": self.assemblies, **self.more}
        listed = ", ".join(f"{name}: {count:,}" for name, count in counts.items())
        return f"{', '.join(self.spaces)}. {listed.capitalize()}."


def load_demo(
    team: Team,
    *,
    now: datetime,
    actor: str,
    days: int = ASSEMBLY_DAYS,
    assemblies_a_day: int = ASSEMBLIES_A_DAY,
) -> DemoSummary:
    """Fill the team's demo spaces, all of them or none. Loading twice changes nothing.

    Raises:
        Conflict: one of the slugs belongs to a space that is not a demo.
    """
    with transaction.atomic():
        # Two loads for the same team wait for each other here.
        team.lock()
        if not demo_spaces(team):
            rng = random.Random(DEMO_ACTOR)  # noqa: S311 - the same demo every time
            spaces = [_fill_space(team, story, rng, now, actor) for story in STORIES]
            _assemble_all(spaces, rng, now, days, assemblies_a_day)
            stage = Stage(team, {space.slug: space for space in spaces}, now, rng)
            for chapter in CHAPTERS:
                chapter.load(stage)
        return summarise_demo(team)


def remove_demo(team: Team, *, actor: str = SYSTEM) -> DemoSummary:
    """Delete the team's demo spaces and everything in them; return what was there."""
    with transaction.atomic():
        summary = summarise_demo(team)
        for space in demo_spaces(team):
            delete_space(space=space, actor=actor)
        for chapter in CHAPTERS:
            chapter.remove(team)
    return summary


def demo_spaces(team: Team) -> list[Space]:
    return list(Space.objects.of(team).filter(is_demo=True))


def summarise_demo(team: Team) -> DemoSummary:
    spaces = demo_spaces(team)
    return DemoSummary(
        spaces=tuple(space.slug for space in spaces),
        records=Record.objects.filter(space__in=spaces).count(),
        assemblies=Assembly.objects.of(team).filter(is_demo=True).count(),
        more={name: count for chapter in CHAPTERS for name, count in chapter.count(team).items()},
    )


def _fill_space(team: Team, story: Story, rng: random.Random, now: datetime, actor: str) -> Space:
    data = SpaceIn(
        slug=story.slug, name=story.name, description=story.description, categories=list(story.categories)
    )
    begun = now - timedelta(days=RECORD_DAYS)
    space = create_space(team=team, data=data, actor=actor, is_demo=True, at=begun)
    rows = [_dated_row(story, number, rng, now) for number in range(1, RECORD_DAYS * story.records_a_day + 1)]
    rows += [_pinned_row(story, index, now) for index in range(len(story.pinned))]
    results = upsert_records(space=space, rows=rows, actor=actor)
    _view_some([result.record_id for result in results], rng)
    try:
        ensure_embedded(SEARCHABLE, space.pk, limit=len(rows))
    except EmbeddingUnavailable as error:
        log.warning("demo_not_embedded", space=space.slug, error=str(error))
    return space


def _dated_row(story: Story, number: int, rng: random.Random, now: datetime) -> RecordIn:
    """Create one record. Records are spread evenly over the days before now, at working hours."""
    told = tell(story, number, rng)
    days_ago = (number - 1) // story.records_a_day
    return RecordIn(
        title=told.title,
        type=told.type,
        date=_moment(now, days_ago, rng),
        tags=list(told.tags),
        notes=told.notes,
        # Related records share a thread. Numbers count back from now, so positions run the other way.
        thread=told.tags[0],
        position=RECORD_DAYS * story.records_a_day - number,
        source=DEMO_ACTOR,
        external_id=f"{story.slug}-{number:04}",
        metadata={"demo": True},
    )


def _pinned_row(story: Story, index: int, now: datetime) -> RecordIn:
    guide = story.pinned[index]
    return RecordIn(
        title=guide.title,
        type="guide",
        date=now - timedelta(days=60 + index),
        tags=["guide"],
        notes=guide.notes,
        pinned=True,
        source=DEMO_ACTOR,
        external_id=f"{story.slug}-guide-{index + 1}",
        metadata={"demo": True},
    )


def _moment(now: datetime, days_ago: int, rng: random.Random) -> datetime:
    """Return a moment in a working hour of that day, never after now."""
    day = now - timedelta(days=days_ago)
    moment = day.replace(
        hour=rng.choice(HOURS), minute=rng.randrange(60), second=rng.randrange(60), microsecond=0
    )
    return moment if moment <= now else moment - timedelta(days=1)


def _view_some(record_ids: list[int], rng: random.Random) -> None:
    """View some records as people do: most never, a few often."""
    some = Record.objects.select_related("space__team").filter(
        pk__in=rng.sample(record_ids, len(record_ids) // 4)
    )
    for record in some.order_by("pk"):
        for number in range(rng.choice((1, 1, 2, 2, 3, 5, 8, 12))):
            view_record(record=record, viewer=f"demo:{number}")


def _assemble_all(
    spaces: list[Space], rng: random.Random, now: datetime, days: int, assemblies_a_day: int
) -> None:
    """Run the assemblies in order of time; after a seventh of them, tighten each space's settings."""
    moments = sorted(_moment(now, rng.randrange(days), rng) for _ in range(days * assemblies_a_day))
    for number, moment in enumerate(moments):
        if number == len(moments) // TIGHTENED:
            _tighten(spaces, moment)
        space = rng.choices(spaces, weights=range(len(spaces) + 1, 1, -1))[0]
        assemble_space(
            team_id=space.team_id,
            request=_request(space, moment, rng),
            actor=DEMO_ACTOR,
            is_demo=True,
            created_at=moment,
        )


def _request(space: Space, moment: datetime, rng: random.Random) -> AssemblyIn:
    is_asked = rng.random() < ASKED
    return AssemblyIn(
        space=space.slug,
        query=rng.choice(QUESTIONS[space.slug]) if is_asked else "",
        stage=5 if is_asked else rng.choices((4, 3, 2), weights=(86, 10, 4))[0],
        as_of=moment,
        system_tokens=rng.randrange(250, 800),
        history_tokens=rng.choice((0, rng.randrange(100, 900), rng.randrange(900, 1_450))),
        conversation=f"{space.slug}-{moment:%m%d}-{rng.randrange(6)}",
        model=rng.choice(MODELS),
    )


def _tighten(spaces: list[Space], moment: datetime) -> None:
    """Publish a second version of the settings, so that the two can be compared."""
    for space, story in zip(spaces, STORIES, strict=True):
        publish_settings(
            space=space, created_by=DEMO_ACTOR, note=story.second_note, at=moment, **story.second_settings
        )
