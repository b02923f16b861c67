"""Computes what prompts cost a second time, from the log and one day's price at a time, as proof."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from math import isclose
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from django.db import connection
from django.utils import timezone

from contextopt.assemblies.models import SPLIT
from contextopt.assemblies.placement.modelcatalog import PriceBook
from contextopt.assemblies.verify import Difference
from contextopt.engine.placement.choice import Split
from contextopt.sql import fetch_rows
from dashboard.kit.periods import custom_period
from dashboard.rollups.coverage import FigureFilter
from dashboard.rollups.models import DayRollup, RollupZone
from dashboard.rollups.prices import DOLLARS, PRICE_JOIN, read_prices

# Sums depend on the order in which they are added up.
TOLERANCE = 1e-9

_SHOWN = f"""
    SELECT (start AT TIME ZONE %(zone)s)::date AS day, rollups.model, sum({DOLLARS}) AS dollars
      FROM dashboard_dayrollup AS rollups {PRICE_JOIN}
     WHERE team_id = %(team)s AND prompts > 0
     GROUP BY 1, 2
"""
# Assemblies not yet in a rollup are left out, and so are days that wait to be measured again.
_SPLIT = zip(SPLIT, ("tokens", "cached", "cacheable"), strict=True)
_LOGGED = f"""
    SELECT (a.created_at AT TIME ZONE %(zone)s)::date AS day, a.model,
           {", ".join(f"coalesce(sum(a.{column}), 0)::bigint AS {name}" for column, name in _SPLIT)}
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
    stale = _stale_days(values)
    check, book = CostCheck(), PriceBook()
    for row in fetch_rows(_Logged, _LOGGED, values):
        if row.day not in stale:
            check.checked += 1
            check.differences += _compare(row, row.dollars(book), shown.get((row.day, row.model)))
    return check


def _stale_days(values: dict[str, Any]) -> set[date]:
    with connection.cursor() as cursor:
        cursor.execute(_STALE, values)
        return {day for (day,) in cursor.fetchall()}


def _compare(row: _Logged, cost: float | None, shown: float | None) -> Iterator[tuple[str, Difference]]:
    is_same = cost == shown if cost is None or shown is None else isclose(cost, shown, rel_tol=TOLERANCE)
    if not is_same:
        yield f"of {row.day} ({row.model or 'no model'})", Difference("dollars", shown, cost)
