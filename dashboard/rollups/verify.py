"""Adds the log up again and compares it with the rollups behind the Overview, as proof."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Model

from contextopt.assemblies.verify import Difference
from dashboard.rollups.fold import summed
from dashboard.rollups.measures import (
    DIMENSION_COLUMNS,
    FRACTIONS,
    MEASURE_COLUMNS,
    QUARTER,
    columns,
    measured,
)
from dashboard.rollups.models import SUMMARY_DIMENSIONS, DayRollup, DaySummary, HourSummary, QuarterRollup

# Applies to sums of fractions.
TOLERANCE = 1e-6

# Assemblies that wait to be folded are in no rollup, and days that wait to be rebuilt are not compared.
_LOG = measured(
    QUARTER,
    """FROM contextopt_assembly a
     WHERE a.team_id = %(team)s
       AND NOT EXISTS (SELECT FROM dashboard_unfoldedassembly u WHERE u.assembly_id = a.id)""",
)
_IS_STALE = (
    "EXISTS (SELECT FROM dashboard_staleday d WHERE d.team_id = %(team)s"
    " AND d.day = date_trunc('day', start, 'UTC'))"
)
_OF_TEAM = "q.team_id = %(team)s"
_IS_SUMMARISED = "start >= (SELECT summarised_since FROM dashboard_rollupzone WHERE team_id = %(team)s)"


@dataclass(frozen=True, slots=True)
class _Level:
    """A table of rollups, the query that adds up its rows again, and the rows of both that are compared."""

    name: str
    model: type[Model]
    source: str
    dimensions: tuple[str, ...]
    condition: str = "true"


_QUARTERS = "dashboard_quarterrollup"
_LEVELS = (
    _Level("quarter", QuarterRollup, _LOG, DIMENSION_COLUMNS, f"NOT {_IS_STALE}"),
    _Level("day", DayRollup, summed("day", _QUARTERS, DIMENSION_COLUMNS, _OF_TEAM), DIMENSION_COLUMNS),
    *(
        _Level(
            f"{unit} of all spaces", model, summed(unit, _QUARTERS, SUMMARY_DIMENSIONS, _OF_TEAM),
            SUMMARY_DIMENSIONS, _IS_SUMMARISED,
        )
        for unit, model in (("hour", HourSummary), ("day", DaySummary))
    ),
)  # fmt: skip


def _sides(name: str) -> tuple[str, str]:
    """Return the SQL of a measure as it is stored and as it is added up; a row that is missing has none."""
    return f"sum({name}) FILTER (WHERE is_stored)", f"sum({name}) FILTER (WHERE NOT is_stored)"


def _differ(name: str) -> str:
    stored, added = _sides(name)
    if name in FRACTIONS:
        return f"abs(coalesce({stored}, 0) - coalesce({added}, 0)) > {TOLERANCE}"
    return f"{stored} IS DISTINCT FROM {added}"


def _query(level: _Level) -> str:
    """Return the SQL of the rows that differ: where they are, then for each measure both its values.

    One statement sees the log, its notes and the rollups at one moment, whatever is folded in the meantime.
    """
    named = columns(("team_id", "start", *level.dimensions, *MEASURE_COLUMNS))
    shown = columns(("start", *level.dimensions))
    both = ", ".join(
        f"CASE WHEN {_differ(name)} THEN ARRAY[{', '.join(f'({side})::text' for side in _sides(name))}] END"
        for name in MEASURE_COLUMNS
    )
    return f"""
        SELECT {shown}, {both}
          FROM (SELECT true AS is_stored, {named} FROM {level.model._meta.db_table} WHERE team_id = %(team)s
                UNION ALL
                SELECT false, {named} FROM ({level.source}) AS added) AS sides
         WHERE {level.condition}
         GROUP BY {shown}
        HAVING {" OR ".join(map(_differ, MEASURE_COLUMNS))}
         ORDER BY start
    """


def verify_rollups(team_id: int) -> Iterator[tuple[str, Difference]]:
    """Yield which rollup differs from the sum it should be, and how: quarters from the log, others from
    quarters.
    """
    for level in _LEVELS:
        with connection.cursor() as cursor:
            cursor.execute(_query(level), {"team": team_id})
            for start, *rest in cursor:
                subject = _name(level, start, rest)
                for name, sides in zip(MEASURE_COLUMNS, rest[len(level.dimensions) :], strict=True):
                    if sides is not None:
                        yield subject, Difference(name, *sides)


def count_rollups(team_id: int) -> int:
    return sum(level.model._default_manager.filter(team_id=team_id).count() for level in _LEVELS)


def _name(level: _Level, start: datetime, values: list[Any]) -> str:
    told = [
        f"{name.removesuffix('_id')} {value}"
        for name, value in zip(level.dimensions, values, strict=False)
        if value not in (None, "")
    ]
    return f"{level.name} from {start:%Y-%m-%d %H:%M} UTC ({', '.join(told)})"
