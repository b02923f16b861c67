"""Projects the month's savings from its last days."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from dashboard.kit.periods import custom_period
from dashboard.rollups.sources import FigureFilter, rollup_parameters, rollup_rows

RATE_DAYS = 7


@dataclass(frozen=True, slots=True)
class MonthProjection:
    """The tokens that the month saved so far, and at its end at the pace of the last full days."""

    so_far: int
    projected: int


_MONTH = """
    SELECT coalesce(sum(tokens_saved) FILTER (WHERE start >= %(month)s), 0)::bigint,
           coalesce(sum(tokens_saved) FILTER (WHERE start >= %(week)s AND start < %(today)s), 0)::bigint,
           min(start) FILTER (WHERE start >= %(week)s)
      FROM ({rows}) AS rollups
"""


def project_month(wanted: FigureFilter, now: datetime) -> MonthProjection:
    """Project the month that contains `now`, in the team's time zone, in one query."""
    zone = wanted.period.zone
    today = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    month, week = today.replace(day=1), today - timedelta(days=RATE_DAYS)
    next_month = (month + timedelta(days=32)).replace(day=1)
    period = custom_period(min(month, week).date(), today.date(), now, zone)
    asked = wanted.over(period)
    with connection.cursor() as cursor:
        cursor.execute(
            _MONTH.format(rows=rollup_rows(asked)),
            {**rollup_parameters(asked), "month": month, "week": week, "today": today},
        )
        tokens, week_tokens, first = cursor.fetchone()
    measured = (today.date() - first.astimezone(zone).date()).days if first else 0
    days_left = (next_month.date() - today.date()).days - (now - today) / timedelta(days=1)
    share = days_left / measured if measured > 0 else 0.0
    return MonthProjection(tokens, round(tokens + week_tokens * share))
