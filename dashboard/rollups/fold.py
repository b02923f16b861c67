"""Folds the log into rollups and summaries: each assembly once, as transactions commit, in bounded steps.

A step removes notes of `UnfoldedAssembly` and adds their assemblies in one transaction, so it may be killed,
run twice or run late without counting anything twice. Only one step runs at a time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from zoneinfo import ZoneInfo

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import F
from django.utils import timezone

from contextopt.locks import Lock, take_turn, unless_deleted, wait_turn
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from dashboard.rollups.measures import (
    COLUMNS,
    DIMENSION_COLUMNS,
    MEASURE_COLUMNS,
    QUARTER,
    SUMMARY_COLUMNS,
    added_up,
    columns,
    joined,
    measured,
)
from dashboard.rollups.models import (
    SUMMARY_DIMENSIONS,
    DayRollup,
    DaySummary,
    HourSummary,
    QuarterRollup,
    RollupZone,
    StaleDay,
)

FOLD_ROWS = 10_000
# A job starts no new step after this time; no step takes as long.
JOB_SECONDS = 15.0
DAY = timedelta(days=1)
# Summarising a million assemblies from a span this long takes a second or two.
SUMMARISED_AT_ONCE = timedelta(days=30)
ALWAYS = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))

_QUARTERS, _DAYS = "dashboard_quarterrollup", "dashboard_dayrollup"
_HOUR_SUMMARIES, _DAY_SUMMARIES = "dashboard_hoursummary", "dashboard_daysummary"


def _add(table: str, query: str, dimensions: tuple[str, ...] = DIMENSION_COLUMNS) -> str:
    """Return the SQL that adds the rows of a query to a table of rollups or summaries."""
    sums = ", ".join(
        f"{name} = {joined(name, f'{table}.{name}', f'excluded.{name}')}" for name in MEASURE_COLUMNS
    )
    return (
        f"INSERT INTO {table} (team_id, start, {columns((*dimensions, *MEASURE_COLUMNS))}) {query} "
        f"ON CONFLICT (team_id, start, {columns(dimensions)}) DO UPDATE SET {sums}"
    )


def summed(unit: str, source: str, dimensions: tuple[str, ...], condition: str = "true") -> str:
    """Return the SQL that adds the rows of `source` up to hours or days in their team's zone."""
    named = columns(dimensions, "q.")
    return f"""
    SELECT q.team_id, date_trunc('{unit}', q.start, z.time_zone) AS start, {named}, {added_up()}
      FROM {source} q JOIN dashboard_rollupzone z ON z.team_id = q.team_id
     WHERE {condition}
     GROUP BY q.team_id, 2, {named}
"""


def _summarise(hours: str) -> str:
    """Return common table expressions that add up the query `hours` and insert it into both tables."""
    named = f"team_id, start, {columns(SUMMARY_COLUMNS)}"
    days = summed("day", "hours", SUMMARY_DIMENSIONS)
    return f"""
hours AS MATERIALIZED (
    {hours}
), hour_summaries AS (
    {_add(_HOUR_SUMMARIES, f"SELECT {named} FROM hours", SUMMARY_DIMENSIONS)}
), day_summaries AS (
    {_add(_DAY_SUMMARIES, f"SELECT {named} FROM ({days}) AS days", SUMMARY_DIMENSIONS)}
)
"""


# Skip a team or space that is being deleted instead of waiting: its assemblies go with it.
_FOLD = f"""
WITH noted AS MATERIALIZED (
    SELECT u.assembly_id, a.team_id, a.space_id
      FROM (SELECT assembly_id FROM dashboard_unfoldedassembly LIMIT %(rows)s FOR UPDATE SKIP LOCKED) u
      LEFT JOIN contextopt_assembly a ON a.id = u.assembly_id
), teams AS MATERIALIZED (
    SELECT id FROM contextopt_team WHERE id IN (SELECT team_id FROM noted) FOR KEY SHARE SKIP LOCKED
), spaces AS MATERIALIZED (
    SELECT id FROM contextopt_space WHERE id IN (SELECT space_id FROM noted) FOR KEY SHARE SKIP LOCKED
), taken AS (
    DELETE FROM dashboard_unfoldedassembly u USING noted
     WHERE u.assembly_id = noted.assembly_id
       AND (noted.team_id IS NULL OR noted.team_id IN (SELECT id FROM teams))
       AND (noted.space_id IS NULL OR noted.space_id IN (SELECT id FROM spaces))
    RETURNING u.assembly_id
), quarters AS MATERIALIZED (
    {measured(QUARTER, "FROM contextopt_assembly a JOIN taken ON taken.assembly_id = a.id")}
), folded AS (
    {_add(_QUARTERS, "SELECT team_id, start, " + columns(COLUMNS) + " FROM quarters")}
), folded_days AS (
    {_add(_DAYS, "SELECT * FROM (" + summed("day", "quarters", DIMENSION_COLUMNS) + ") days")}
), {_summarise(summed("hour", "quarters", SUMMARY_DIMENSIONS))}
SELECT count(*) FROM taken
"""


# Measures one day in UTC, the step of a rebuild, and removes the notes of its assemblies.
_MEASURE_DAY = f"""
WITH taken AS (
    DELETE FROM dashboard_unfoldedassembly u USING contextopt_assembly a
     WHERE a.id = u.assembly_id AND a.team_id = %(team)s
       AND a.created_at >= %(start)s AND a.created_at < %(end)s
)
{
    _add(
        _QUARTERS,
        measured(
            QUARTER,
            '''FROM contextopt_assembly a
     WHERE a.team_id = %(team)s AND a.created_at >= %(start)s AND a.created_at < %(end)s''',
        ),
    )
}
"""

# The local days that a period touches, from the first one's midnight to the end of the last one.
_TOUCHED_DAYS = """
SELECT date_trunc('day', %(start)s::timestamptz, time_zone),
       (date_trunc('day', %(end)s::timestamptz - interval '15 minutes', time_zone) AT TIME ZONE time_zone
        + interval '1 day') AT TIME ZONE time_zone
  FROM dashboard_rollupzone WHERE team_id = %(team)s
"""

_STRETCH = "q.team_id = %(team)s AND q.start >= %(first)s AND q.start < %(last)s"
_ADD_DAYS = _add(_DAYS, summed("day", _QUARTERS, DIMENSION_COLUMNS, _STRETCH))
_ADD_SUMMARIES = f"""
WITH {_summarise(summed("hour", _QUARTERS, SUMMARY_DIMENSIONS, _STRETCH))}
SELECT
"""
_ENDS = """
SELECT min(start), max(start) FROM (
    (SELECT created_at AS start FROM contextopt_assembly WHERE team_id = %(team)s ORDER BY 1 LIMIT 1)
    UNION ALL
    (SELECT created_at FROM contextopt_assembly WHERE team_id = %(team)s ORDER BY 1 DESC LIMIT 1)
    UNION ALL
    SELECT min(start) FROM dashboard_quarterrollup WHERE team_id = %(team)s
    UNION ALL
    SELECT max(start) FROM dashboard_quarterrollup WHERE team_id = %(team)s
) AS moments
"""
_ANY_WORK = """
SELECT EXISTS (SELECT FROM dashboard_unfoldedassembly) OR EXISTS (SELECT FROM dashboard_staleday)
    OR EXISTS (SELECT FROM contextopt_team t JOIN dashboard_rollupzone z ON z.team_id = t.id
                WHERE z.time_zone <> t.time_zone OR z.summarised_since IS DISTINCT FROM %(always)s)
"""

# Teams without a zone start with their current time zone.
_ENSURE_ZONES = """
INSERT INTO dashboard_rollupzone (team_id, time_zone, summarised_since)
SELECT id, time_zone, %(always)s FROM contextopt_team t
 WHERE NOT EXISTS (SELECT FROM dashboard_rollupzone z WHERE z.team_id = t.id)
   FOR KEY SHARE SKIP LOCKED
ON CONFLICT DO NOTHING
"""


def keep_rollups() -> int:
    """Fold new assemblies and rebuild stale rollups for `JOB_SECONDS`; return how many were folded."""
    folded, deadline = 0, monotonic() + JOB_SECONDS
    with connection.cursor() as cursor:
        cursor.execute(_ANY_WORK, {"always": ALWAYS[0]})
        if not cursor.fetchone()[0]:
            return 0
    while step := fold(FOLD_ROWS):
        folded += step
        if step < FOLD_ROWS or monotonic() > deadline:
            break
    for stale in StaleDay.objects.select_related("team").order_by("-day"):
        if monotonic() > deadline:
            break
        with unless_deleted():
            rebuild_day(stale.team, stale.day)
    for zone in RollupZone.objects.exclude(time_zone=F("team__time_zone")).select_related("team"):
        with unless_deleted():
            take_zone(zone.team)
    for zone in RollupZone.objects.exclude(summarised_since=ALWAYS[0]).select_related("team"):
        with unless_deleted():
            while monotonic() < deadline and not summarise(zone.team):
                pass
    return folded


def fold(rows: int = FOLD_ROWS) -> int | None:
    """Fold at most this many assemblies; return how many, or None if another process is folding."""
    with transaction.atomic(), connection.cursor() as cursor:
        if not take_turn(Lock.ROLLUPS):
            return None
        cursor.execute(_ENSURE_ZONES, {"always": ALWAYS[0]})
        cursor.execute(_FOLD, {"rows": rows})
        return int(cursor.fetchone()[0])


def rebuild(team: Team) -> Iterator[datetime]:
    """Rebuild all of a team's rollups from its log, one day per step; yield each day when it is done.

    Pages show correct figures in the meantime, and assemblies may arrive.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ENDS, {"team": team.pk})
        first, last = cursor.fetchone()
    if first is None:
        return
    day = first.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    while day <= last:
        rebuild_day(team, day)
        yield day
        day += DAY


def rebuild_day(team: Team, day: datetime) -> None:
    """Rebuild the rollups of one day, in UTC, from the log."""
    stretch: dict[str, int | datetime] = {"team": team.pk, "start": day, "end": day + DAY}
    with _alone(team) as cursor:
        StaleDay.objects.filter(team=team, day=day).delete()
        QuarterRollup.objects.filter(team=team, start__gte=day, start__lt=day + DAY).delete()
        cursor.execute(_MEASURE_DAY, stretch)
        cursor.execute(_TOUCHED_DAYS, stretch)
        first, last = cursor.fetchone()
        _make_days(cursor, team, first, last)
        _make_summaries(cursor, team, first, last)


def take_zone(team: Team) -> None:
    """Rebuild the team's day rollups and summaries for its current time zone."""
    with _alone(team) as cursor:
        zone = Team.objects.values_list("time_zone", flat=True).get(pk=team.pk)
        RollupZone.objects.filter(team=team).update(time_zone=zone, summarised_since=ALWAYS[0])
        _make_days(cursor, team, *ALWAYS)
        _make_summaries(cursor, team, *ALWAYS)


def summarise(team: Team) -> bool:
    """Rebuild the newest of the team's invalid summaries; return whether all are valid now."""
    with _alone(team) as cursor:
        zone = RollupZone.objects.get(team=team)
        end = zone.summarised_since or ALWAYS[1]
        day = min(end, timezone.now()).astimezone(ZoneInfo(zone.time_zone)) - SUMMARISED_AT_ONCE
        first = day.replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)
        if not QuarterRollup.objects.filter(team=team, start__lt=first).exists():
            first = ALWAYS[0]
        _make_summaries(cursor, team, first, end)
        RollupZone.objects.filter(team=team).update(summarised_since=first)
    return first == ALWAYS[0]


def _make_days(cursor: CursorWrapper, team: Team, first: datetime, last: datetime) -> None:
    DayRollup.objects.filter(team=team, start__gte=first, start__lt=last).delete()
    cursor.execute(_ADD_DAYS, {"team": team.pk, "first": first, "last": last})


def _make_summaries(cursor: CursorWrapper, team: Team, first: datetime, last: datetime) -> None:
    for summary in (HourSummary, DaySummary):
        summary.objects.filter(team=team, start__gte=first, start__lt=last).delete()
    cursor.execute(_ADD_SUMMARIES, {"team": team.pk, "first": first, "last": last})


@contextmanager
def _alone(team: Team) -> Iterator[CursorWrapper]:
    """Wait for any process that folds, then keep the team and its spaces from being deleted.

    Raises:
        Team.DoesNotExist: the team was deleted before.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        wait_turn(Lock.ROLLUPS)
        team.lock()
        list(Space.objects.filter(team=team).select_for_update(no_key=True).values_list("pk"))
        cursor.execute(_ENSURE_ZONES, {"always": ALWAYS[0]})
        yield cursor
