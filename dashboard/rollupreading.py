"""Reading rollups: whole days where a period has them, quarters at its ends, and what is not folded yet."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dashboard.measures import COLUMNS, QUARTER, columns, measured
from dashboard.models import UnfoldedAssembly
from dashboard.periods import Period

# Reading raw rows takes some 20 ms for so many; there are more only when the worker is behind or down.
FRESH_ROWS = 2_000


@dataclass(frozen=True, slots=True)
class RollupFilter:
    """Which rollups are read; none is any."""

    team_id: int
    period: Period
    space_id: int | None = None
    stage: int | None = None
    kind: str | None = None
    phase: str | None = None
    config_version: int | None = None
    model: str | None = None

    @property
    def days_end(self) -> datetime:
        """Where whole days end: none are read of a period that is cut into hours."""
        period = self.period
        if period.step == "hour":
            return period.start
        midnight = period.until.astimezone(period.zone).replace(hour=0, minute=0, second=0, microsecond=0)
        return max(period.start, midnight.astimezone(UTC))


_CONDITIONS = {
    "space_id": "space_id = %(space_id)s",
    "stage": "stage = %(stage)s",
    "kind": "kind = %(kind)s",
    "phase": "phase = %(phase)s",
    "config_version": "config_id IN (SELECT c.id FROM contextopt_contextconfig c"
    " JOIN contextopt_space s ON s.id = c.space_id"
    " WHERE s.team_id = %(team_id)s AND c.version = %(config_version)s)",
    "model": "model = %(model)s",
}

_FRESH = measured(
    QUARTER,
    """FROM (SELECT assembly_id FROM dashboard_unfoldedassembly LIMIT %(fresh_rows)s) u
       JOIN contextopt_assembly a ON a.id = u.assembly_id AND a.team_id = %(team_id)s
        AND a.created_at >= %(start)s AND a.created_at < %(until)s + interval '15 minutes'""",
)
_HAS_ZONE = (
    "coalesce((SELECT time_zone = %(zone)s FROM dashboard_rollupzone WHERE team_id = %(team_id)s), false)"
)


def rollup_rows(wanted: RollupFilter) -> str:
    """Return a query for the rollups of a filter, with `start`, all dimensions and all measures.

    The last quarter counts whole, so a period ends up to 15 minutes after its `until`. Day rollups of
    another time zone than the period's, before a job has made them again, are not used.
    """
    narrowed = "".join(
        f" AND {condition}" for name, condition in _CONDITIONS.items() if getattr(wanted, name) is not None
    )
    names = columns(COLUMNS)
    return f"""
        SELECT start, {names} FROM dashboard_dayrollup
         WHERE team_id = %(team_id)s AND start >= %(start)s AND start < %(days_end)s AND {_HAS_ZONE}
           {narrowed}
        UNION ALL
        SELECT start, {names} FROM dashboard_quarterrollup
         WHERE team_id = %(team_id)s AND start < %(until)s {narrowed}
           AND start >= CASE WHEN {_HAS_ZONE} THEN %(days_end)s ELSE %(start)s END
        UNION ALL
        SELECT start, {names} FROM ({_FRESH}) AS fresh
         WHERE start >= %(start)s AND start < %(until)s {narrowed}
    """


def rollup_parameters(wanted: RollupFilter) -> dict[str, Any]:
    period = wanted.period
    return {
        "team_id": wanted.team_id,
        "start": period.start,
        "days_end": wanted.days_end,
        "until": period.until,
        "zone": period.zone.key,
        "fresh_rows": FRESH_ROWS,
        **{name: getattr(wanted, name) for name in _CONDITIONS},
    }


def is_behind() -> bool:
    """Say whether more assemblies wait to be folded than pages read by themselves."""
    return UnfoldedAssembly.objects.all()[FRESH_ROWS : FRESH_ROWS + 1].exists()
