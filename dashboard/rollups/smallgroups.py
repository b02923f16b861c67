"""Reads the figures of few assemblies from the log itself: rollups know which quarters hold them.

A kind or stage with fewer than `EXACT_BELOW` assemblies has exact percentiles, however long the log is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from contextopt.assemblies.figures import FIGURES
from contextopt.sql import fetch_rows
from dashboard.rollups.coverage import FigureFilter, rollup_parameters
from dashboard.rollups.measures import QUARTER


@dataclass(frozen=True, slots=True)
class SmallGroups:
    """The kinds and stages that have few assemblies."""

    kinds: Sequence[str]
    stages: Sequence[int]


class LogRow(NamedTuple):
    """The figures of one assembly that have buckets, by their names; a figure that it lacks is None."""

    created_at: datetime
    kind: str
    stage: int | None
    ms: float
    tokens: int
    ratio: float | None
    utilisation: float | None


_MEASURED = {figure.buckets.name: figure.value_sql for figure in FIGURES if figure.buckets}
_FIGURES = "a.id, a.created_at, a.kind, a.stage, " + ", ".join(
    f"{value} AS {name}" for name, value in _MEASURED.items()
)
_IS_SMALL = "(kind = ANY(%(kinds)s) OR stage = ANY(%(stages)s))"
# Days of any time zone lead to the quarters; a local day has up to 25 hours. An assembly that is not in a
# rollup yet may be in a quarter that is.
_ROWS = f"""
WITH days AS MATERIALIZED (
    SELECT DISTINCT start FROM dashboard_dayrollup
     WHERE team_id = %(team_id)s AND start > %(start)s - interval '25 hours' AND start < %(until)s
       AND {_IS_SMALL} {{narrowed}}
), quarters AS MATERIALIZED (
    SELECT DISTINCT q.start FROM days CROSS JOIN LATERAL (
        SELECT start FROM dashboard_quarterrollup
         WHERE team_id = %(team_id)s AND start >= days.start AND start < days.start + interval '25 hours'
           AND {_IS_SMALL} {{narrowed}}) q
)
SELECT created_at, kind, stage, {", ".join(_MEASURED)} FROM (
    SELECT {_FIGURES} FROM quarters q JOIN contextopt_assembly a
        ON a.team_id = %(team_id)s
       AND a.created_at >= q.start AND a.created_at < q.start + interval '15 minutes'
     WHERE {_IS_SMALL} {{narrowed}}
    UNION
    SELECT {_FIGURES} FROM (SELECT assembly_id FROM dashboard_unfoldedassembly LIMIT %(fresh_rows)s) u
      JOIN contextopt_assembly a ON a.id = u.assembly_id AND a.team_id = %(team_id)s
     WHERE {_IS_SMALL} {{narrowed}}
) AS found
 WHERE created_at >= %(start)s AND {QUARTER.replace("a.created_at", "created_at")} < %(until)s
 ORDER BY created_at
"""


def read_small_groups(wanted: FigureFilter, small: SmallGroups) -> list[LogRow]:
    """Return the assemblies of these kinds and stages, oldest first, in one query."""
    values = {**rollup_parameters(wanted), "kinds": list(small.kinds), "stages": list(small.stages)}
    return fetch_rows(LogRow, _ROWS.format(narrowed=wanted.where()), values)
