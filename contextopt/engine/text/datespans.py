"""Spans of whole days: a day, a week, a month, a season, a year, or any days in a row."""

import calendar
from dataclasses import dataclass
from datetime import date, timedelta

DAY = timedelta(days=1)
WEEK_DAYS = 7
MONTHS = 12
SEASON_MONTHS = 3


@dataclass(frozen=True, slots=True)
class DateSpan:
    """The days from `first` (None: the beginning of time) to `last`, both included."""

    first: date | None
    last: date

    def days_after(self, day: date) -> int | None:
        """Return how many days after the span a day is: 0 inside it, None before it."""
        if self.first is not None and day < self.first:
            return None
        return max(0, (day - self.last).days)


def day_of(year: int, month: int, day: int) -> DateSpan | None:
    """Return one day; None if it is not in the calendar."""
    try:
        only = date(year, month, day)
    except ValueError:
        return None
    return DateSpan(only, only)


def month_of(year: int, month: int, months: int = 1) -> DateSpan | None:
    """Return this many months, from the given one on; None outside the years 1 to 9999."""
    last_year, last_month = add_months(year, month, months - 1)
    if not (year >= 1 and last_year <= date.max.year and 1 <= month <= MONTHS):
        return None
    days = calendar.monthrange(last_year, last_month)[1]
    return DateSpan(date(year, month, 1), date(last_year, last_month, days))


def add_months(year: int, month: int, months: int) -> tuple[int, int]:
    """Return the year and month this many months later, or earlier if negative."""
    years, rest = divmod(month - 1 + months, MONTHS)
    return year + years, rest + 1


def week_of(day: date) -> DateSpan:
    """Return the week from Monday to Sunday that a day is in."""
    monday = day - day.weekday() * DAY
    return DateSpan(monday, monday + (WEEK_DAYS - 1) * DAY)


def latest_day(month: int, day: int, today: date) -> DateSpan | None:
    """Return the latest such day up to today. The 29th of February may be years ago."""
    years = range(today.year, max(0, today.year - 9), -1)
    spans = (day_of(year, month, day) for year in years)
    return next((span for span in spans if span and span.last <= today), None)


def latest_months(month: int, today: date, months: int = 1) -> DateSpan | None:
    """Return the latest period of these months that has begun by today."""
    year = today.year if month <= today.month else today.year - 1
    return month_of(year, month, months)


def rolling(today: date, unit: str, count: int) -> DateSpan | None:
    """Return the last `count` days, weeks, months or years up to today."""
    first = shifted(today, unit, -count)
    return None if first is None else DateSpan(first, today)


def around(today: date, unit: str, count: int) -> DateSpan | None:
    """Return the day, week, month or year that was `count` of them ago."""
    then = shifted(today, unit, -count)
    if then is None or unit == "day":
        return None if then is None else DateSpan(then, then)
    if unit == "week":
        return week_of(then)
    return month_of(then.year, then.month) if unit == "month" else month_of(then.year, 1, MONTHS)


def shifted(day: date, unit: str, count: int) -> date | None:
    """Return the day this many units later, or earlier if negative; None outside the calendar."""
    try:
        if unit in {"day", "week"}:
            return day + timedelta(days=count * (WEEK_DAYS if unit == "week" else 1))
        year, month = add_months(day.year, day.month, count * (MONTHS if unit == "year" else 1))
        return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))
    except (ValueError, OverflowError):
        return None


def latest_weekday(weekday: int, before: date) -> DateSpan:
    """Return the latest such weekday before a day; Monday is 0."""
    day = before - ((before.weekday() - weekday - 1) % WEEK_DAYS + 1) * DAY
    return DateSpan(day, day)
