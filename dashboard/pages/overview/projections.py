"""Projects the month's savings from its last days."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from dashboard.kit.periods import custom_period
from dashboard.pages.overview.figures import Figures, Series
from dashboard.rollups.prices import PRICE_JOIN
from dashboard.rollups.sources import FigureFilter, rollup_parameters, rollup_rows

RATE_DAYS = 7


@dataclass(frozen=True, slots=True)
class Sums:
    """Tokens, and dollars if models have a price."""

    tokens: int = 0
    dollars: float | None = None


@dataclass(frozen=True, slots=True)
class MonthProjection:
    """The month's savings so far, and at its end at the pace of the last full days."""

    so_far: Sums
    projected: Sums


_MONTH = """
    SELECT {sums} FROM (
        SELECT start, tokens_saved, tokens_saved * price.dollars_per_million / 1000000 AS dollars
          FROM ({rows}) AS rollups {priced}
    ) AS saved
""".format(
    sums=", ".join(
        f"coalesce(sum(tokens_saved) FILTER (WHERE {when}), 0)::bigint,"
        f" (sum(dollars) FILTER (WHERE {when}))::float8"
        for when in ("start >= %(month)s", "start >= %(week)s AND start < %(today)s")
    )
    + ", min(start) FILTER (WHERE start >= %(week)s)",
    priced=PRICE_JOIN,
    rows="{rows}",
)


def project_month(series: Series, wanted: FigureFilter, now: datetime) -> MonthProjection:
    """Project the month that contains `now`, in the team's time zone, in one query.

    Without a query, if the page's own days reach back far enough.
    """
    today = now.astimezone(wanted.period.zone).replace(hour=0, minute=0, second=0, microsecond=0)
    month, week = today.replace(day=1), today - timedelta(days=RATE_DAYS)
    next_month = (month + timedelta(days=32)).replace(day=1)
    period = series.period
    is_covered = period.step == "day" and period.start <= min(month, week) and now < period.edges[-1]
    known = _known_sums(series, month, week, today) if is_covered else _read_sums(wanted, month, week, now)
    measured = (today.date() - known.first.astimezone(period.zone).date()).days if known.first else 0
    days_left = (next_month.date() - today.date()).days - (now - today) / timedelta(days=1)
    share = days_left / measured if measured > 0 else 0.0
    so_far, last_week = known.month, known.week
    has_price = so_far.dollars is not None or last_week.dollars is not None
    return MonthProjection(
        so_far,
        Sums(
            round(so_far.tokens + last_week.tokens * share),
            (so_far.dollars or 0.0) + (last_week.dollars or 0.0) * share if has_price else None,
        ),
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """The savings of the month so far and of the last full days, and the first of those with assemblies."""

    month: Sums
    week: Sums
    first: datetime | None


def _known_sums(series: Series, month: datetime, week: datetime, today: datetime) -> _Known:
    days = [(bucket.start, figures) for bucket, figures in series.rows if figures.assemblies]
    last = [(start, figures) for start, figures in days if week <= start]
    return _Known(
        _add_up([figures for start, figures in days if month <= start]),
        _add_up([figures for start, figures in last if start < today]),
        last[0][0] if last else None,
    )


def _add_up(days: list[Figures]) -> Sums:
    dollars = [day.dollars_saved for day in days if day.dollars_saved is not None]
    return Sums(sum(day.tokens_saved for day in days), sum(dollars) if dollars else None)


def _read_sums(wanted: FigureFilter, month: datetime, week: datetime, now: datetime) -> _Known:
    today = week + timedelta(days=RATE_DAYS)
    period = custom_period(min(month, week).date(), today.date(), now, wanted.period.zone)
    asked = wanted.over(period)
    with connection.cursor() as cursor:
        cursor.execute(
            _MONTH.format(rows=rollup_rows(asked)),
            {**rollup_parameters(asked), "month": month, "week": week, "today": today},
        )
        tokens, dollars, week_tokens, week_dollars, first = cursor.fetchone()
    return _Known(Sums(tokens, dollars), Sums(week_tokens, week_dollars), first)
