"""Reads folded assemblies as a period's whole days and hours, then quarters, and unfolded ones as they are.

Summaries, which cover all spaces, are read unless a space or a config is filtered.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from dashboard.kit.periods import Period
from dashboard.rollups.measures import QUARTER, SUMMARY_COLUMNS, columns, measured
from dashboard.rollups.models import UnfoldedAssembly

# Reading this many raw rows takes some 20 ms; more wait only if the worker is behind or down.
FRESH_ROWS = 2_000


# The configs of a version as an array, so that the index alone finds their rollups.
_CONFIGS = """ANY(ARRAY(
    SELECT c.id FROM contextopt_contextconfig c JOIN contextopt_space s ON s.id = c.space_id
     WHERE s.team_id = %(team_id)s AND c.version = %(config_version)s))"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblyFilter:
    """The assemblies of a team that have these dimensions; None means any."""

    team_id: int
    space_id: int | None = None
    stage: int | None = None
    kind: str | None = None
    phase: str | None = None
    config_version: int | None = None
    model: str | None = None

    def where(self, alias: str = "", **columns: str) -> str:
        """Return the conditions in SQL, each after an AND. Other tables may name their own columns."""
        given = [name for name, value in self.dimensions().items() if value is not None]
        return "".join(
            f" AND {alias}config_id = {_CONFIGS}"
            if name == "config_version" and name not in columns
            else f" AND {columns.get(name, alias + name)} = %({name})s"
            for name in given
        )

    def dimensions(self) -> dict[str, Any]:
        """Return the parameters of `where`, without the team."""
        names = ("space_id", "stage", "kind", "phase", "config_version", "model")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class FigureFilter(AssemblyFilter):
    """The assemblies that a page's figures cover."""

    team_id: int
    period: Period

    def over(self, period: Period) -> "FigureFilter":
        return replace(self, period=period)

    def before(self) -> "FigureFilter":
        """Return the same filter for the preceding period."""
        return self.over(self.period.before())

    @property
    def hours_end(self) -> datetime:
        """The end of the whole hours, after the days; there are none if an edge is not on the hour."""
        period = self.period
        until = period.until.astimezone(period.zone)
        if period.step == "hour" and any(edge.astimezone(period.zone).minute for edge in period.edges):
            return period.days_end
        return max(period.days_end, until.replace(minute=0, second=0, microsecond=0).astimezone(UTC))

    @property
    def is_of_all_spaces(self) -> bool:
        """Whether summaries suffice: nothing is filtered that they do not distinguish."""
        return self.space_id is None and self.config_version is None


_FRESH = measured(
    QUARTER,
    """FROM (SELECT assembly_id FROM dashboard_unfoldedassembly LIMIT %(fresh_rows)s) u
       JOIN contextopt_assembly a ON a.id = u.assembly_id AND a.team_id = %(team_id)s
        AND a.created_at >= %(start)s AND a.created_at < %(until)s + interval '15 minutes'""",
)
_ZONE_HAS = "coalesce((SELECT {what} FROM dashboard_rollupzone WHERE team_id = %(team_id)s), false)"
_HAS_ZONE = _ZONE_HAS.format(what="time_zone = %(zone)s")
_IS_SUMMARISED = _ZONE_HAS.format(what="time_zone = %(zone)s AND summarised_since <= %(start)s")
_NAMES = columns(SUMMARY_COLUMNS)


def rollup_rows(wanted: FigureFilter) -> str:
    """Return a query for a filter's measurements: `start`, the summaries' dimensions, all measures.

    The last quarter counts whole, so a period ends up to 15 minutes after its `until`. Days and summaries of
    another time zone than the period's, and invalid summaries, are not used until a job has rebuilt them.
    """
    narrowed = wanted.where()
    rows = _summary_rows(narrowed) if wanted.is_of_all_spaces else _detailed_rows(narrowed)
    return f"""{rows}
        UNION ALL
        SELECT start, {_NAMES} FROM ({_FRESH}) AS fresh
         WHERE start >= %(start)s AND start < %(until)s {narrowed}
    """


def _detailed_rows(narrowed: str) -> str:
    """Return a query for whole days, and for quarters after them."""
    return f"""
        SELECT start, {_NAMES} FROM dashboard_dayrollup
         WHERE team_id = %(team_id)s AND start >= %(start)s AND start < %(days_end)s AND {_HAS_ZONE}
           {narrowed}
        UNION ALL
        SELECT start, {_NAMES} FROM dashboard_quarterrollup
         WHERE team_id = %(team_id)s AND start < %(until)s {narrowed}
           AND start >= CASE WHEN {_HAS_ZONE} THEN %(days_end)s ELSE %(start)s END
    """


def _summary_rows(narrowed: str) -> str:
    """Return a query for summaries of days and hours, and for quarters after the hours."""
    return f"""
        SELECT start, {_NAMES} FROM dashboard_daysummary
         WHERE team_id = %(team_id)s AND start >= %(start)s AND start < %(days_end)s AND {_IS_SUMMARISED}
           {narrowed}
        UNION ALL
        SELECT start, {_NAMES} FROM dashboard_hoursummary
         WHERE team_id = %(team_id)s AND start >= %(days_end)s AND start < %(hours_end)s AND {_IS_SUMMARISED}
           {narrowed}
        UNION ALL
        SELECT start, {_NAMES} FROM dashboard_dayrollup
         WHERE team_id = %(team_id)s AND start >= %(start)s AND start < %(days_end)s
           AND {_HAS_ZONE} AND NOT {_IS_SUMMARISED} {narrowed}
        UNION ALL
        SELECT start, {_NAMES} FROM dashboard_quarterrollup
         WHERE team_id = %(team_id)s AND start < %(until)s {narrowed}
           AND start >= CASE WHEN {_IS_SUMMARISED} THEN %(hours_end)s
                             WHEN {_HAS_ZONE} THEN %(days_end)s ELSE %(start)s END
    """


def rollup_parameters(wanted: FigureFilter) -> dict[str, Any]:
    """Return the values of the filter and its period, by their names in queries."""
    period = wanted.period
    return {
        "team_id": wanted.team_id,
        "start": period.start,
        "days_end": period.days_end,
        "hours_end": wanted.hours_end,
        "until": period.until,
        "zone": period.zone.key,
        "fresh_rows": FRESH_ROWS,
        **wanted.dimensions(),
    }


def is_behind() -> bool:
    """Return whether more assemblies wait to be folded than pages read themselves."""
    return UnfoldedAssembly.objects.all()[FRESH_ROWS : FRESH_ROWS + 1].exists()
