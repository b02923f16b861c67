"""Projects the month's savings from its last days."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connection

from dashboard.kit.periods import custom_period
from dashboard.pages.overview.figures import Series, sum_known
from dashboard.rollups.prices import PRICE_JOIN, SAVED_DOLLARS, read_prices
from dashboard.rollups.sources import FigureFilter, rollup_parameters, rollup_rows

RATE_DAYS = 7


@dataclass(frozen=True, slots=True)
class MonthProjection:
    """The tokens that the month saved so far, and at its end at the pace of the last full days.

    The saving will then be worth about `dollars` after the provider's cache; None if no price is known.
    """

    so_far: int
    projected: int
    dollars: float | None


class _Known(NamedTuple):
    """The tokens saved in the month and in the last full days, what they are worth, and the first known day
    with assemblies.
    """

    month: int
    week: int
    month_dollars: float | None
    week_dollars: float | None
    first: datetime | None


_MONTH = f"""
    SELECT coalesce(sum(tokens_saved) FILTER (WHERE start >= %(month)s), 0)::bigint,
           coalesce(sum(tokens_saved) FILTER (WHERE start >= %(week)s AND start < %(today)s), 0)::bigint,
           sum({SAVED_DOLLARS}) FILTER (WHERE prompts > 0 AND start >= %(month)s),
           sum({SAVED_DOLLARS})
               FILTER (WHERE prompts > 0 AND start >= %(week)s AND start < %(today)s),
           min(start)
      FROM ({{rows}}) AS rollups {PRICE_JOIN}
"""


def project_month(series: Series, wanted: FigureFilter, now: datetime) -> MonthProjection:
    """Project the month that contains `now`, in the team's time zone, in two queries.

    Without any, if the page's own days reach back far enough.
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
    dollars = None
    if known.month_dollars is not None or known.week_dollars is not None:
        dollars = (known.month_dollars or 0.0) + (known.week_dollars or 0.0) * share
    return MonthProjection(known.month, round(known.month + known.week * share), dollars)


def _known_sums(series: Series, month: datetime, week: datetime, today: datetime) -> _Known:
    days = [(bucket.start, figures) for bucket, figures in series.rows if figures.assemblies]
    of_month = [figures for start, figures in days if month <= start]
    of_week = [figures for start, figures in days if week <= start < today]
    return _Known(
        sum(figures.tokens_saved for figures in of_month),
        sum(figures.tokens_saved for figures in of_week),
        sum_known(figures.saved_dollars for figures in of_month),
        sum_known(figures.saved_dollars for figures in of_week),
        days[0][0] if days else None,
    )


def _read_sums(
    wanted: FigureFilter, since: datetime, month: datetime, week: datetime, now: datetime
) -> _Known:
    today = week + timedelta(days=RATE_DAYS)
    period = custom_period(since.date(), today.date(), now, wanted.period.zone)
    asked = wanted.over(period)
    prices = read_prices(asked).parameters()
    with connection.cursor() as cursor:
        cursor.execute(
            _MONTH.format(rows=rollup_rows(asked)),
            {**rollup_parameters(asked), **prices, "month": month, "week": week, "today": today},
        )
        return _Known(*cursor.fetchone())
