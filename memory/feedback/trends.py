"""Where votes come from: by time, stage, settings, phase and record. Every query is bounded."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.db import connection

GROUPS_MAX = 50
# Ledgers are read for the newest votes only: each has up to a thousand records.
LEDGERS_MAX = 500

type Grouping = Literal["stage", "config", "phase", "reason"]

# What a group is named by; two spaces have a version 1 each, so a version is named with its space.
_KEYS: dict[Grouping, tuple[str, str]] = {
    "stage": ("vote.stage::text", "''"),
    "config": ("vote.config_version::text", "space.slug"),
    "phase": ("nullif(vote.phase, '')", "''"),
    "reason": ("nullif(vote.reason, '')", "''"),
}


@dataclass(frozen=True, slots=True)
class VoteFilter:
    """Which votes: those given from `start` up to, and without, `until`."""

    team_id: int
    start: datetime
    until: datetime
    space_id: int | None = None
    stage: int | None = None
    config_version: int | None = None
    phase: str | None = None

    def to_params(self) -> dict[str, Any]:
        return {
            "team": self.team_id,
            "start": self.start,
            "until": self.until,
            "space": self.space_id,
            "stage": self.stage,
            "version": self.config_version,
            "phase": self.phase,
        }


@dataclass(frozen=True, slots=True)
class VoteFigures:
    """Thumbs of a set of votes."""

    up: int = 0
    down: int = 0

    @property
    def votes(self) -> int:
        return self.up + self.down

    @property
    def liked_rate(self) -> float | None:
        """Thumbs up ÷ votes, 0 to 1; none without votes."""
        return self.up / self.votes if self.votes else None


@dataclass(frozen=True, slots=True)
class Group:
    """The votes of one stage, version, phase or reason; `space` is the slug of a version's space."""

    key: str
    space: str
    figures: VoteFigures


@dataclass(frozen=True, slots=True)
class RecordTrend:
    """A record and the voted answers whose context it was in: how many liked it, how many did not."""

    record_id: int
    space: str
    title: str
    figures: VoteFigures


_WHERE = """
    WHERE vote.team_id = %(team)s AND vote.created_at >= %(start)s AND vote.created_at < %(until)s
      AND (%(space)s::bigint IS NULL OR vote.space_id = %(space)s)
      AND (%(stage)s::smallint IS NULL OR vote.stage = %(stage)s)
      AND (%(version)s::integer IS NULL OR vote.config_version = %(version)s)
      AND (%(phase)s::text IS NULL OR vote.phase = %(phase)s)
"""
_COUNTS = "count(*) FILTER (WHERE rating = 'up'), count(*) FILTER (WHERE rating = 'down')"

_SERIES = f"""
    SELECT bucket, {_COUNTS} FROM (
        SELECT width_bucket(vote.created_at, %(edges)s::timestamptz[]) AS bucket, rating
        FROM memory_vote AS vote {_WHERE}
    ) AS chosen GROUP BY GROUPING SETS ((bucket), ())
"""

# `order` of a ledger are the ids that were rendered.
_RECORDS = f"""
    WITH chosen AS (
        SELECT vote.assembly_id, vote.rating
        FROM memory_vote AS vote
        JOIN contextopt_assembly AS assembly ON assembly.id = vote.assembly_id AND assembly.kind = 'space'
        {_WHERE}
        ORDER BY vote.created_at DESC, vote.id DESC LIMIT %(ledgers)s
    ), named AS (
        SELECT item.id::bigint AS record_id, chosen.rating
        FROM chosen
        JOIN contextopt_assemblypayload AS payload USING (assembly_id)
        CROSS JOIN LATERAL jsonb_array_elements_text(payload.ledger -> 'order') AS item(id)
    ), counted AS (
        SELECT record_id, count(*) FILTER (WHERE rating = 'up') AS up,
               count(*) FILTER (WHERE rating = 'down') AS down
        FROM named GROUP BY record_id
        HAVING count(*) FILTER (WHERE rating = 'down') > 0
        ORDER BY down DESC, up, record_id DESC LIMIT %(limit)s
    )
    SELECT record.id, space.slug, record.title, counted.up, counted.down
    FROM counted
    JOIN contextopt_record AS record ON record.id = counted.record_id
    JOIN contextopt_space AS space ON space.id = record.space_id AND space.team_id = %(team)s
    ORDER BY counted.down DESC, counted.up, record.id DESC
"""


def read_vote_series(
    wanted: VoteFilter, edges: Sequence[datetime]
) -> tuple[VoteFigures, tuple[VoteFigures, ...]]:
    """Return the figures of the whole period and of each bucket between the edges, in one query."""
    rows = _fetch(_SERIES, wanted, edges=list(edges))
    found = {bucket: VoteFigures(up, down) for bucket, up, down in rows}
    points = tuple(found.get(number, VoteFigures()) for number in range(1, len(edges)))
    return found.get(None, VoteFigures()), points


def read_vote_groups(wanted: VoteFilter, by: Grouping) -> list[Group]:
    """Return the groups that have votes, the most voted on first."""
    key, space = _KEYS[by]
    query = f"""
        SELECT key, space, {_COUNTS} FROM (
            SELECT {key} AS key, {space} AS space, rating
            FROM memory_vote AS vote LEFT JOIN contextopt_space AS space ON space.id = vote.space_id
            {_WHERE}
        ) AS chosen
        WHERE key IS NOT NULL GROUP BY key, space ORDER BY count(*) DESC, key, space LIMIT %(limit)s
    """
    rows = _fetch(query, wanted, limit=GROUPS_MAX)
    return [Group(key, space or "", VoteFigures(up, down)) for key, space, up, down in rows]


def read_record_trends(wanted: VoteFilter, limit: int = 20) -> list[RecordTrend]:
    """Return the records most often in disliked answers, of the newest 500 votes."""
    rows = _fetch(_RECORDS, wanted, ledgers=LEDGERS_MAX, limit=limit)
    return [
        RecordTrend(record_id, space, title, VoteFigures(up, down))
        for record_id, space, title, up, down in rows
    ]


def _fetch(query: str, wanted: VoteFilter, **more: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, {**wanted.to_params(), **more})
        return list(cursor.fetchall())
