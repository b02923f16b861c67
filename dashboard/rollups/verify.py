"""Adds the log up again, and what its prompts cost, and compares both with what pages show, as proof."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from math import isclose
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import Model
from django.utils import timezone

from contextopt.assemblies.figures import BY_NAME
from contextopt.assemblies.models import SPLIT
from contextopt.assemblies.placement.modelcatalog import PriceBook
from contextopt.assemblies.verify import Difference
from contextopt.engine.placement.choice import Split
from contextopt.sql import fetch_all, fetch_rows
from dashboard.kit.periods import custom_period
from dashboard.rollups.fold import summed
from dashboard.rollups.measures import (
    DIMENSION_COLUMNS,
    FRACTIONS,
    MEASURE_COLUMNS,
    QUARTER,
    columns,
    measured,
)
from dashboard.rollups.models import (
    SUMMARY_DIMENSIONS,
    DayRollup,
    DaySummary,
    HourSummary,
    QuarterRollup,
    RollupZone,
)
from dashboard.rollups.queries import DOLLARS, PRICE_JOIN, FigureFilter, read_prices

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


# Sums depend on the order in which they are added up.
COST_TOLERANCE = 1e-9

_SHOWN = f"""
    SELECT (start AT TIME ZONE %(zone)s)::date AS day, rollups.model, sum({DOLLARS}) AS dollars
      FROM dashboard_dayrollup AS rollups {PRICE_JOIN}
     WHERE team_id = %(team)s AND prompts > 0
     GROUP BY 1, 2
"""
# Assemblies not yet in a rollup are left out, and so are days that wait to be measured again.
_SPLIT = zip(map(BY_NAME.__getitem__, SPLIT), ("tokens", "cached", "cacheable"), strict=True)
_LOGGED = f"""
    SELECT (a.created_at AT TIME ZONE %(zone)s)::date AS day, a.model,
           {", ".join(f"coalesce(sum({figure.value_sql}), 0)::bigint AS {name}" for figure, name in _SPLIT)}
      FROM contextopt_assembly a
     WHERE a.team_id = %(team)s AND a.{SPLIT[0]} IS NOT NULL AND a.is_sent
       AND NOT EXISTS (SELECT FROM dashboard_unfoldedassembly u WHERE u.assembly_id = a.id)
     GROUP BY 1, 2 ORDER BY 1, 2
"""
_STALE = """
    SELECT DISTINCT ((day + hours) AT TIME ZONE %(zone)s)::date
      FROM dashboard_staleday, unnest(ARRAY[interval '0', interval '23:59:59']) AS hours
     WHERE team_id = %(team)s
"""


class _Shown(NamedTuple):
    day: date
    model: str
    dollars: float | None


class _Logged(NamedTuple):
    day: date
    model: str
    tokens: int
    cached: int
    cacheable: int

    def dollars(self, book: PriceBook) -> float | None:
        price = book.price(self.model, self.day)
        rest = self.tokens - self.cached - self.cacheable
        return None if price is None else price.dollars(Split(self.cached, self.cacheable, rest))


@dataclass(slots=True)
class CostCheck:
    """The costs that were compared, by day and model, and those that differ."""

    checked: int = 0
    differences: list[tuple[str, Difference]] = field(default_factory=list)


def verify_costs(team_id: int) -> CostCheck:
    """Compare what pages show for each day and model with what the log's prompts cost that day."""
    zone = RollupZone.objects.filter(team=team_id).values_list("time_zone", flat=True).first()
    first = DayRollup.objects.filter(team=team_id).order_by("start").values_list("start", flat=True).first()
    if zone is None or first is None:
        return CostCheck()
    now, here = timezone.now(), ZoneInfo(zone)
    period = custom_period(first.astimezone(here).date(), now.astimezone(here).date(), now, here)
    values = {"team": team_id, "zone": zone, **read_prices(FigureFilter(team_id, period)).parameters()}
    shown = {(row.day, row.model): row.dollars for row in fetch_rows(_Shown, _SHOWN, values)}
    stale = {day for (day,) in fetch_all(_STALE, values)}
    check, book = CostCheck(), PriceBook()
    for row in fetch_rows(_Logged, _LOGGED, values):
        if row.day not in stale:
            check.checked += 1
            check.differences += _compare(row, row.dollars(book), shown.get((row.day, row.model)))
    return check


def _compare(row: _Logged, cost: float | None, shown: float | None) -> Iterator[tuple[str, Difference]]:
    is_same = cost == shown if cost is None or shown is None else isclose(cost, shown, rel_tol=COST_TOLERANCE)
    if not is_same:
        yield f"of {row.day} ({row.model or 'no model'})", Difference("dollars", shown, cost)
