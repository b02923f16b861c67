"""The overview's numbers, aggregated by the database.

`OverviewFilter` goes in, rows come out: where the rows are read from is this module's business alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection

from dashboard.periods import Bucket, Period


@dataclass(frozen=True, slots=True)
class OverviewFilter:
    """Which assemblies the overview is about."""

    team_id: int
    period: Period
    space_id: int | None = None
    stage: int | None = None

    def before(self) -> "OverviewFilter":
        return replace(self, period=self.period.before())


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a set of assemblies. Ratios are from 0 to 1 and averages over requests; times are in ms.

    A figure is None where nothing was measured.
    """

    assemblies: int = 0
    ratio: float | None = None
    utilisation: float | None = None
    truncation_rate: float | None = None
    tokens_saved: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    records_included: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None

    @property
    def saving_rate(self) -> float | None:
        """Tokens saved as a share of what stage 3 would have sent; negative when it cost more."""
        return self.tokens_saved / self.tokens_before if self.tokens_before else None


@dataclass(frozen=True, slots=True)
class Series:
    """Figures of each bucket of a period, and of the whole."""

    period: Period
    total: Figures
    points: tuple[Figures, ...]

    @property
    def rows(self) -> list[tuple[Bucket, Figures]]:
        return list(zip(self.period.buckets, self.points, strict=True))


@dataclass(frozen=True, slots=True)
class StageFigures:
    """One stage of the comparison."""

    stage: int
    assemblies: int
    median_tokens: float
    tokens_saved: int
    tokens_before: int

    @property
    def saving_rate(self) -> float | None:
        return self.tokens_saved / self.tokens_before if self.tokens_before else None


_FILTERED = """
    FROM contextopt_assembly
    WHERE team_id = %(team)s AND created_at >= %(start)s AND created_at < %(until)s
      AND (%(space)s::bigint IS NULL OR space_id = %(space)s)
      AND (%(stage)s::smallint IS NULL OR stage = %(stage)s)
"""

# The buckets are given as their edges: the team's days have 23 to 25 hours, which no interval says.
_SERIES = f"""
    SELECT bucket, count(*),
           avg(ratio), avg(utilisation), avg(truncated::int)::float8,
           coalesce(sum(tokens_before - tokens_after), 0), coalesce(sum(tokens_before), 0), sum(tokens_after),
           avg(records_included)::float8,
           percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY assembly_ms)
    FROM (
        SELECT width_bucket(created_at, %(edges)s::timestamptz[]) AS bucket,
               records_included::float8 / nullif(records_filtered, 0) AS ratio,
               tokens_after::float8 / nullif(tokens_available, 0) AS utilisation,
               truncated, tokens_before, tokens_after, records_included, assembly_ms
        {_FILTERED}
    ) AS chosen
    GROUP BY GROUPING SETS ((bucket), ())
"""

_STAGES = f"""
    SELECT stage, count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY tokens_after),
           coalesce(sum(tokens_before - tokens_after), 0), coalesce(sum(tokens_before), 0)
    {_FILTERED} AND stage IS NOT NULL
    GROUP BY stage ORDER BY stage
"""


def read_series(wanted: OverviewFilter) -> Series:
    """Return the figures of each bucket and of the whole period, in one query."""
    rows = _fetch(_SERIES, wanted)
    by_bucket = {row[0]: _figures(row[1:]) for row in rows}
    count = len(wanted.period.edges) - 1
    points = tuple(by_bucket.get(number, Figures()) for number in range(1, count + 1))
    return Series(wanted.period, by_bucket.get(None, Figures()), points)


def read_stages(wanted: OverviewFilter) -> list[StageFigures]:
    """Return the stages side by side, in one query."""
    return [
        StageFigures(int(stage), int(count), float(median), int(saved), int(before))
        for stage, count, median, saved, before in _fetch(_STAGES, wanted)
    ]


def _fetch(query: str, wanted: OverviewFilter) -> list[tuple[Any, ...]]:
    period = wanted.period
    with connection.cursor() as cursor:
        cursor.execute(
            query,
            {
                "team": wanted.team_id,
                "start": period.start,
                "until": period.until,
                "space": wanted.space_id,
                "stage": wanted.stage,
                "edges": list(period.edges),
            },
        )
        return list(cursor.fetchall())


def _figures(row: Sequence[Any]) -> Figures:
    count, ratio, utilisation, truncated, saved, before, after, included, percentiles = row
    if not count:
        return Figures()
    p50, p95, p99 = percentiles
    return Figures(
        int(count),
        ratio,
        utilisation,
        truncated,
        int(saved),
        int(before),
        int(after),
        included,
        p50,
        p95,
        p99,
    )


@dataclass(frozen=True, slots=True)
class ScoreSpread:
    """What the scores of the looked-at spaces have to tell records apart by."""

    has_records: bool
    is_viewed: bool
    has_ages: bool


SPREAD_SPACES = 20

# Both sides of each comparison are the ends of an index: no space is scanned.
_SPREAD = """
    SELECT count(*) > 0,
           coalesce(bool_or(viewed), false),
           coalesce(bool_or(newest - oldest > interval '1 day'), false)
    FROM (
        SELECT EXISTS (
                   SELECT 1 FROM contextopt_record r
                   WHERE r.space_id = s.id AND r.deleted_at IS NULL AND NOT r.pinned AND r.frequency > 0
               ) AS viewed,
               (SELECT max(r.date) FROM contextopt_record r
                WHERE r.space_id = s.id AND r.deleted_at IS NULL) AS newest,
               (SELECT min(r.date) FROM contextopt_record r
                WHERE r.space_id = s.id AND r.deleted_at IS NULL) AS oldest
        FROM contextopt_space s
        WHERE s.team_id = %(team)s AND (%(space)s::bigint IS NULL OR s.id = %(space)s)
        ORDER BY s.id LIMIT %(limit)s
    ) AS spaces
    WHERE newest IS NOT NULL
"""


def read_score_spread(wanted: OverviewFilter) -> ScoreSpread:
    """Say whether views or ages tell the records of the first spaces apart, in one query."""
    with connection.cursor() as cursor:
        cursor.execute(_SPREAD, {"team": wanted.team_id, "space": wanted.space_id, "limit": SPREAD_SPACES})
        return ScoreSpread(*cursor.fetchone())
