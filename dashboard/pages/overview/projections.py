"""Projects the month's savings from its last days."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from dashboard.kit.periods import custom_period
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
        tokens, dollars, week_tokens, week_dollars, first = cursor.fetchone()
    measured = (today.date() - first.astimezone(zone).date()).days if first else 0
    days_left = (next_month.date() - today.date()).days - (now - today) / timedelta(days=1)
    share = days_left / measured if measured > 0 else 0.0
    so_far = Sums(tokens, dollars)
    has_price = dollars is not None or week_dollars is not None
    return MonthProjection(
        so_far,
        Sums(
            round(tokens + week_tokens * share),
            (dollars or 0.0) + (week_dollars or 0.0) * share if has_price else None,
        ),
    )
