"""Finds the next rows of a filtered list in a long log: rollups know which quarters contain some.

Without it, a page of a filter that few assemblies pass would read the whole log.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Q

from dashboard.rollups.queries import FRESH_ROWS, AssemblyFilter

QUARTER = timedelta(minutes=15)
# Enough for a page's rows and one more that tells whether there are older ones. Each quarter found holds at
# least one row; the cursor's own quarter may have been shown already.
QUARTERS_NEEDED = 53


@dataclass(frozen=True, slots=True)
class Narrowing(AssemblyFilter):
    """The dimensions that a list is filtered by, and its limits in time."""

    team_id: int
    before: datetime | None = None
    since: datetime | None = None
    truncated: str = ""

    @property
    def is_needed(self) -> bool:
        """Whether any filter lacks an index of its own, as a space has."""
        given = [value for name, value in self.dimensions().items() if name != "space_id"]
        return bool(self.truncated) or any(value is not None for value in given)


_PASSES = "team_id = %(team_id)s AND start <= coalesce(%(before)s, 'infinity'::timestamptz) {where}"
# Rollups count their truncated assemblies, so they can answer both yes and no.
_TRUNCATED = {"": "", "yes": "AND truncated > 0", "no": "AND truncated < assemblies"}
# Both are read from their unique index alone, unless truncation is filtered. A local day has up to 25 hours.
_QUARTERS = f"""
    WITH days AS MATERIALIZED (
        SELECT DISTINCT start FROM dashboard_dayrollup
         WHERE {_PASSES} {{truncated}} AND start >= %(since)s - interval '25 hours'
         ORDER BY start DESC LIMIT %(needed)s
    )
    SELECT DISTINCT start FROM dashboard_quarterrollup
     WHERE {_PASSES} {{truncated}} AND start > %(since)s - interval '15 minutes'
       AND start >= (SELECT min(start) FROM days)
       AND start < (SELECT max(start) + interval '25 hours' FROM days)
     ORDER BY start DESC LIMIT %(needed)s
"""
# Unfolded assemblies are in no rollup, whatever their date. Count only those that pass the filter: the rest
# would stretch the range up to now, and everything in between would be read.
_FRESH = """
    SELECT count(*), min(a.created_at), max(a.created_at)
      FROM (SELECT assembly_id FROM dashboard_unfoldedassembly LIMIT %(rows)s) u
      LEFT JOIN contextopt_assembly a ON a.id = u.assembly_id AND a.team_id = %(team_id)s {where}
"""


def narrow(wanted: Narrowing) -> Q:
    """Return the times of the next page's assemblies as a filter, in two queries; all times if unknown."""
    with connection.cursor() as cursor:
        cursor.execute(
            _FRESH.format(where=wanted.where("a.")), {**_parameters(wanted), "rows": FRESH_ROWS + 1}
        )
        waiting, first, last = cursor.fetchone()
        if waiting > FRESH_ROWS:
            return Q()
        quarters = _QUARTERS.format(truncated=_TRUNCATED[wanted.truncated], where=wanted.where())
        cursor.execute(quarters, _parameters(wanted))
        stretches = list(join_quarters(start for (start,) in cursor.fetchall()))
    if first is not None:
        stretches.append((first, last + timedelta(microseconds=1)))
    return within(stretches)


def within(stretches: Sequence[tuple[datetime, datetime]]) -> Q:
    """Match the periods. Add their overall range, since alternatives alone do not use an index."""
    if not stretches:
        return Q(pk__in=[])
    alternatives = Q()
    for start, end in stretches:
        alternatives |= Q(created_at__gte=start, created_at__lt=end)
    first, last = min(start for start, _ in stretches), max(end for _, end in stretches)
    return Q(created_at__gte=first, created_at__lt=last) & alternatives


def join_quarters(newest_first: Iterable[datetime]) -> Iterable[tuple[datetime, datetime]]:
    """Join consecutive quarters into periods, from start up to, but not including, end."""
    start = end = None
    for quarter in newest_first:
        if start is not None and end is not None and quarter + QUARTER != start:
            yield start, end
            end = None
        start, end = quarter, end or quarter + QUARTER
    if start is not None and end is not None:
        yield start, end


def _parameters(wanted: Narrowing) -> dict[str, Any]:
    return {
        "team_id": wanted.team_id,
        "before": wanted.before,
        "since": wanted.since or datetime.fromisoformat("2000-01-01T00:00:00+00:00"),
        "needed": QUARTERS_NEEDED,
        **wanted.dimensions(),
    }
