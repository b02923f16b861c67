from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dashboard.kit.periods import RANGES, custom_period, recent_period

OSLO = ZoneInfo("Europe/Oslo")
NOW = datetime(2026, 11, 21, 13, 2, tzinfo=UTC)


def test_fourteen_days_end_with_today_at_the_zones_midnights() -> None:
    period = recent_period("14d", NOW, OSLO)
    assert len(period.buckets) == 14
    assert period.start == datetime(2026, 11, 7, 23, tzinfo=UTC)
    assert period.until == NOW
    assert period.is_incomplete


def test_a_day_of_25_hours_is_one_bucket() -> None:
    period = custom_period(date(2026, 10, 23), date(2026, 10, 27), NOW, OSLO)
    hours = [(bucket.end - bucket.start) / timedelta(hours=1) for bucket in period.buckets]
    assert hours == [24, 24, 25, 24, 24]


def test_24_hours_end_with_the_present_one() -> None:
    period = recent_period("24h", NOW, OSLO)
    assert len(period.buckets) == 24
    assert period.edges[-1] == datetime(2026, 11, 21, 14, tzinfo=UTC)


@pytest.mark.parametrize("name", RANGES)
def test_the_period_before_ends_where_this_one_starts(name: str) -> None:
    period = recent_period(name, NOW, OSLO)
    before = period.before()
    assert before.edges[-1] == period.start
    assert len(before.edges) == len(period.edges)
    # Both periods are cut at the same point of their last bucket, to be comparable.
    assert period.edges[-1] - period.until == before.edges[-1] - before.until


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/St_Johns", "Australia/Lord_Howe"])
def test_buckets_are_ordered_and_few(name: str, zone: str) -> None:
    edges = recent_period(name, NOW, ZoneInfo(zone)).edges
    assert list(edges) == sorted(set(edges))
    assert len(edges) <= 121


@pytest.mark.parametrize(
    ("days", "step"), [(1, "hour"), (2, "hour"), (3, "day"), (120, "day"), (400, "week")]
)
def test_longer_periods_have_coarser_buckets(days: int, step: str) -> None:
    period = custom_period(date(2025, 1, 1), date(2025, 1, 1) + timedelta(days=days - 1), NOW, OSLO)
    assert period.step == step
    assert len(period.buckets) <= 120
    assert not period.is_incomplete


def test_a_period_in_the_future_counts_nothing() -> None:
    period = custom_period(date(2027, 1, 1), date(2027, 1, 5), NOW, OSLO)
    assert period.until == period.start
