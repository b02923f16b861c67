"""Trends of votes: by time, stage, settings, phase and record. Every query is bounded."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.contrib.postgres.fields import ArrayField
from django.db.models import Count, DateTimeField, F, Func, IntegerField, Q, Value

from contextopt.assemblies.models import Kind
from contextopt.sql import fetch_all
from memory.feedback.models import Rating, Vote, VoteQuerySet

GROUPS_MAX = 50
# Read ledgers only for the newest votes: each has up to a thousand records.
LEDGERS_MAX = 500
RECORDS_MAX = 20

type Grouping = Literal["stage", "config", "phase", "reason"]

# Versions are numbered per space, so a version is grouped with its space.
_KEYS: dict[Grouping, tuple[str, ...]] = {
    "stage": ("stage",),
    "config": ("config_version", "space__slug", "space__name"),
    "phase": ("phase",),
    "reason": ("reason",),
}
UP, DOWN = Count("pk", filter=Q(rating=Rating.UP)), Count("pk", filter=Q(rating=Rating.DOWN))


@dataclass(frozen=True, slots=True)
class VoteFilter:
    """Selects votes given from `start` up to, but not including, `until`."""

    team_id: int
    start: datetime
    until: datetime
    space_id: int | None = None
    stage: int | None = None
    config_version: int | None = None
    phase: str | None = None

    def select(self) -> VoteQuerySet:
        narrowed = {
            name: value
            for name in ("space_id", "stage", "config_version", "phase")
            if (value := getattr(self, name)) is not None
        }
        found = Vote.objects.filter(
            team_id=self.team_id, created_at__gte=self.start, created_at__lt=self.until, **narrowed
        )
        return found.with_context() if {"stage", "config_version"} & narrowed.keys() else found


@dataclass(frozen=True, slots=True)
class VoteFigures:
    """Upvotes and downvotes in a set of votes."""

    up: int = 0
    down: int = 0

    @property
    def votes(self) -> int:
        return self.up + self.down

    @property
    def liked_rate(self) -> float | None:
        """Upvotes divided by votes, 0 to 1; None without votes."""
        return self.up / self.votes if self.votes else None


@dataclass(frozen=True, slots=True)
class Group:
    """The votes on one stage, version, phase or reason; `space` is the slug of a version's space."""

    key: str
    space: str
    space_name: str
    figures: VoteFigures


@dataclass(frozen=True, slots=True)
class RecordTrend:
    """A record and the votes on answers whose context contained it."""

    record_id: int
    space: str
    space_name: str
    title: str
    figures: VoteFigures


# A ledger's `order` lists the ids that were rendered.
_RECORDS = """
    WITH chosen AS ({votes}), named AS (
        SELECT item.id::bigint AS record_id, chosen.rating
        FROM chosen
        JOIN contextopt_assemblypayload AS payload USING (assembly_id)
        CROSS JOIN LATERAL jsonb_array_elements_text(payload.ledger -> 'order') AS item(id)
    ), counted AS (
        SELECT record_id, count(*) FILTER (WHERE rating = 'up') AS up,
               count(*) FILTER (WHERE rating = 'down') AS down
        FROM named GROUP BY record_id
        HAVING count(*) FILTER (WHERE rating = 'down') > 0
        ORDER BY down DESC, up, record_id DESC LIMIT %s
    )
    SELECT record.id, space.slug, space.name, record.title, counted.up, counted.down
    FROM counted
    JOIN contextopt_record AS record ON record.id = counted.record_id
    JOIN contextopt_space AS space ON space.id = record.space_id AND space.team_id = %s
    ORDER BY counted.down DESC, counted.up, record.id DESC
"""


def read_vote_series(
    wanted: VoteFilter, edges: Sequence[datetime]
) -> tuple[VoteFigures, tuple[VoteFigures, ...]]:
    """Return the figures of the whole period and of each bucket between the edges, in one query."""
    rows = wanted.select().annotate(bucket=bucket_of("created_at", edges)).values_list("bucket")
    found = {bucket: VoteFigures(up, down) for bucket, up, down in rows.annotate(up=UP, down=DOWN)}
    total = VoteFigures(sum(each.up for each in found.values()), sum(each.down for each in found.values()))
    return total, tuple(found.get(number, VoteFigures()) for number in range(1, len(edges)))


def count_votes(assembly_ids: Collection[int]) -> dict[int, VoteFigures]:
    """Return the votes on each of the assemblies that has any."""
    votes = Vote.objects.filter(assembly__in=assembly_ids).values("assembly").annotate(up=UP, down=DOWN)
    return {row["assembly"]: VoteFigures(row["up"], row["down"]) for row in votes}


def bucket_of(field: str, edges: Sequence[datetime]) -> Func:
    """Return the number of the bucket that contains a time: 1 from the first edge to the second, etc."""
    moments = Value(list(edges), output_field=ArrayField(DateTimeField()))
    return Func(F(field), moments, function="width_bucket", output_field=IntegerField())


def read_vote_groups(wanted: VoteFilter, by: Grouping) -> list[Group]:
    """Return the groups that have votes, those with the most votes first."""
    key, *space = _KEYS[by]
    nameless = {f"{key}__isnull": True} if by in {"stage", "config"} else {key: ""}
    votes = wanted.select().with_context() if by in {"stage", "config"} else wanted.select()
    named = votes.exclude(**nameless).values_list(key, *space)
    rows = named.annotate(up=UP, down=DOWN, votes=Count("pk")).order_by("-votes", key, *space)
    return [
        Group(str(found), slug or "", name or "", VoteFigures(up, down))
        for found, *of_space, up, down, _ in rows[:GROUPS_MAX]
        for slug, name in [of_space or ("", "")]
    ]


def read_record_trends(wanted: VoteFilter) -> list[RecordTrend]:
    """Return the records that occur most often in downvoted answers, among the newest 500 votes."""
    newest = wanted.select().with_context().filter(assembly__kind=Kind.SPACE).order_by("-created_at", "-id")
    votes, parameters = newest.values("assembly_id", "rating")[:LEDGERS_MAX].query.sql_with_params()
    rows = fetch_all(_RECORDS.format(votes=votes), [*parameters, RECORDS_MAX, wanted.team_id])
    return [
        RecordTrend(record_id, space, space_name, title, VoteFigures(up, down))
        for record_id, space, space_name, title, up, down in rows
    ]
