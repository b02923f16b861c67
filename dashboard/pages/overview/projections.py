"""Projects the month's savings from its last days."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connection

from dashboard.kit.periods import custom_period
from dashboard.pages.overview.figures import Series
from dashboard.rollups.sources import FigureFilter, rollup_parameters, rollup_rows

RATE_DAYS = 7


@dataclass(frozen=True, slots=True)
class MonthProjection:
    """The tokens that the month saved so far, and at its end at the pace of the last full days."""

    so_far: int
    projected: int


class _Known(NamedTuple):
    """The tokens saved in the month and in the last full days, and the first known day with assemblies."""

    month: int
    week: int
    first: datetime | None


_MONTH = """
    SELECT coalesce(sum(tokens_saved) FILTER (WHERE start >= %(month)s), 0)::bigint,
           coalesce(sum(tokens_saved) FILTER (WHERE start >= %(week)s AND start < %(today)s), 0)::bigint,
           min(start)
      FROM ({rows}) AS rollups
"""


def project_month(series: Series, wanted: FigureFilter, now: datetime) -> MonthProjection:
    """Project the month that contains `now`, in the team's time zone, in one query.

    Without a query, if the page's own days reach back far enough.
    """
    today = now.astimezone(wanted.period.zone).replace(hour=0, minute=0, second=0, microsecond=0)
    month, week = today.replace(day=1), today - timedelta(days=RATE_DAYS)
    next_month = (month + timedelta(days=32)).replace(day=1)
    period = series.period
    # Only what began within the last full days has fewer of them.
    since = min(month, week - timedelta(days=RATE_DAYS))
    is_covered = period.step == "day" and period.start <= since and now < period.edges[-1]
    known = (
        _known_sums(series, month, week, today) if is_covered else _read_sums(wanted, since, month, week, now)
    )
    known_days = (today.date() - known.first.astimezone(period.zone).date()).days if known.first else 0
    measured = min(known_days, RATE_DAYS)
    days_left = (next_month.date() - today.date()).days - (now - today) / timedelta(days=1)
    share = days_left / measured if measured > 0 else 0.0
    return MonthProjection(known.month, round(known.month + known.week * share))


def _known_sums(series: Series, month: datetime, week: datetime, today: datetime) -> _Known:
    days = [(bucket.start, figures) for bucket, figures in series.rows if figures.assemblies]
    return _Known(
        sum(figures.tokens_saved for start, figures in days if month <= start),
        sum(figures.tokens_saved for start, figures in days if week <= start < today),
        days[0][0] if days else None,
    )


def _read_sums(
    wanted: FigureFilter, since: datetime, month: datetime, week: datetime, now: datetime
) -> _Known:
    today = week + timedelta(days=RATE_DAYS)
    period = custom_period(since.date(), today.date(), now, wanted.period.zone)
    asked = wanted.over(period)
    with connection.cursor() as cursor:
        cursor.execute(
            _MONTH.format(rows=rollup_rows(asked)),
            {**rollup_parameters(asked), "month": month, "week": week, "today": today},
        )
        return _Known(*cursor.fetchone())
