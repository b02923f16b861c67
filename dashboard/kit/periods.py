"""Periods of time, cut into the buckets of a chart at the team's own midnights."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Literal
from zoneinfo import ZoneInfo

type Step = Literal["hour", "day", "week"]

RANGE_DAYS = {"7d": 7, "14d": 14, "30d": 30, "90d": 90}
RANGES = ("24h", *RANGE_DAYS)
CUSTOM = "custom"
MAX_DAYS = 400
HOURLY_DAYS = 2
DAILY_DAYS = 120


@dataclass(frozen=True, slots=True)
class Bucket:
    """One point of a chart: from `start` up to, but not including, `end`."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Period:
    """A period in buckets; `edges` has one more moment than there are buckets, all in UTC.

    `until` is where counting ends: the last edge, or now if the last bucket is incomplete.
    """

    edges: tuple[datetime, ...]
    until: datetime
    step: Step
    zone: ZoneInfo

    @property
    def start(self) -> datetime:
        return self.edges[0]

    @property
    def buckets(self) -> list[Bucket]:
        return [Bucket(start, end) for start, end in pairwise(self.edges)]

    @property
    def is_incomplete(self) -> bool:
        """The last bucket is still filling."""
        return self.until < self.edges[-1]

    @property
    def days(self) -> int:
        return max(1, round((self.edges[-1] - self.edges[0]) / timedelta(days=1)))

    @property
    def last_day(self) -> date:
        return (self.edges[-1].astimezone(self.zone) - timedelta(seconds=1)).date()

    @property
    def days_end(self) -> datetime:
        """The end of the whole days; a period cut into hours has none."""
        if self.step == "hour":
            return self.start
        midnight = self.until.astimezone(self.zone).replace(hour=0, minute=0, second=0, microsecond=0)
        return max(self.start, midnight.astimezone(UTC))

    def local_ends(self, bucket: Bucket) -> tuple[str, str]:
        """Return a bucket's start and end in ISO 8601, in the team's zone."""
        return bucket.start.astimezone(self.zone).isoformat(), bucket.end.astimezone(self.zone).isoformat()

    def before(self) -> "Period":
        """Return the preceding period of equal length, cut at the same point of its last bucket."""
        shift = timedelta(days=self.days)
        if self.step == "hour":
            return Period(
                tuple(edge - shift for edge in self.edges), self.until - shift, self.step, self.zone
            )
        edges = tuple(self._earlier(edge, shift) for edge in self.edges)
        return Period(edges, self._earlier(self.until, shift), self.step, self.zone)

    def _earlier(self, moment: datetime, shift: timedelta) -> datetime:
        """Move back by whole local days, which may have 23 or 25 hours."""
        return (moment.astimezone(self.zone) - shift).astimezone(UTC)


def recent_period(name: str, now: datetime, zone: ZoneInfo) -> Period:
    """Return the last 24 hours, or the last days of the named range, ending with today."""
    if name == "24h":
        # Hours follow the local clock: some zones are half an hour off.
        this_hour = now.astimezone(zone).replace(minute=0, second=0, microsecond=0).astimezone(UTC)
        edges = tuple(this_hour + timedelta(hours=n) for n in range(-23, 2))
        return Period(edges, now, "hour", zone)
    today = now.astimezone(zone).date()
    return custom_period(today - timedelta(days=RANGE_DAYS[name] - 1), today, now, zone)


def custom_period(first: date, last: date, now: datetime, zone: ZoneInfo) -> Period:
    """Return the days from `first` to `last`, both included.

    Up to two days are cut into hours, up to 120 into days, longer ones into weeks.
    """
    days = (last - first).days + 1
    start, end = _midnight(first, zone), _midnight(last + timedelta(days=1), zone)
    until = min(end, max(now, start))
    if days <= HOURLY_DAYS:
        hours = round((end - start) / timedelta(hours=1))
        return Period(tuple(start + timedelta(hours=n) for n in range(hours + 1)), until, "hour", zone)
    stride = 1 if days <= DAILY_DAYS else 7
    edges = [_midnight(first + timedelta(days=n), zone) for n in range(0, days, stride)]
    return Period((*edges, end), until, "day" if stride == 1 else "week", zone)


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(), zone).astimezone(UTC)
