from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from contextopt.engine.ranking import (
    HORIZON_US,
    SCORE_SCALE,
    coefficients,
    parts_of,
    rank,
    score,
)
from contextopt.engine.settings import ContextConfig
from contextopt.engine.validation import InvalidValue
from tests.contextopt.engine.factories import NOW, make_record

CONFIG = ContextConfig()


@pytest.mark.parametrize(
    ("days", "expected"), [(0, 10), (15, 5), (30, 0), (45, 0), (-1, 10), (-40, 10), (7.5, 7.5), (29.97, 0.01)]
)
def test_recency(days: float, expected: float) -> None:
    record = make_record(date=NOW - timedelta(days=days))
    assert parts_of(record, NOW)["recency"] == pytest.approx(expected)


@pytest.mark.parametrize(("views", "expected"), [(0, 0), (1, 1), (5, 5), (10, 10), (11, 10), (2**63 - 1, 10)])
def test_frequency(views: int, expected: int) -> None:
    assert parts_of(make_record(view_count=views), NOW)["frequency"] == expected


@pytest.mark.parametrize(
    ("days", "views", "expected"),
    [(0, 10, "10"), (0, 0, "7"), (15, 5, "5"), (30, 10, "3"), (30, 0, "0"), (15, 0, "3.5"), (3, 2, "6.9")],
)
def test_weighted_score(days: float, views: int, expected: str) -> None:
    value = score(make_record(days_old=days, view_count=views), NOW, CONFIG)
    assert value == Decimal(expected) * SCORE_SCALE


def test_nine_days_are_worth_seven_views_exactly() -> None:
    for hours in range(0, 500, 7):
        fresh = make_record(1, days_old=hours / 24)
        read = make_record(2, date=fresh.date - timedelta(days=9), view_count=7)
        assert score(fresh, NOW, CONFIG) == score(read, NOW, CONFIG)
        assert [scored.record.id for scored in rank([read, fresh], NOW, CONFIG)] == [1, 2]


def test_one_microsecond_decides() -> None:
    fresh = make_record(1, date=NOW - timedelta(microseconds=1))
    read = make_record(2, date=NOW - timedelta(days=9), view_count=7)
    assert [scored.record.id for scored in rank([fresh, read], NOW, CONFIG)] == [2, 1]


def test_ties_newer_date_then_higher_id() -> None:
    records = [
        make_record(1),
        make_record(3),
        make_record(2),
        make_record(9, days_old=40),
        make_record(4, days_old=35),
    ]
    assert [scored.record.id for scored in rank(records, NOW, CONFIG)] == [3, 2, 1, 4, 9]


def test_clock_skew_counts_as_age_zero() -> None:
    ahead = make_record(1, date=NOW + timedelta(hours=23))
    assert score(ahead, NOW, CONFIG) == score(make_record(2), NOW, CONFIG)
    assert [scored.record.id for scored in rank([make_record(2), ahead], NOW, CONFIG)] == [1, 2]


def test_pinned_come_first_in_the_same_order() -> None:
    old, older = make_record(1, days_old=20, pinned=True), make_record(2, days_old=25, pinned=True)
    best = make_record(3, view_count=10)
    assert [scored.record for scored in rank([best, older, old], NOW, CONFIG)] == [old, older, best]


def test_the_integer_formula_for_sql() -> None:
    weights = coefficients(CONFIG)
    assert weights == (7000, 300 * HORIZON_US)
    record = make_record(days_old=3, view_count=4)
    age = 3 * 86_400_000_000
    assert score(record, NOW, CONFIG) == weights.recency * (HORIZON_US - age) + weights.frequency * 4


def test_scores_fit_64_bits_at_the_greatest_weights() -> None:
    config = ContextConfig(recency_weight=Decimal(10), frequency_weight=Decimal(10))
    value = score(make_record(view_count=99), NOW, config)
    assert value == 200 * SCORE_SCALE < 2**63


def test_age_across_the_change_to_summer_time() -> None:
    oslo = ZoneInfo("Europe/Oslo")
    now = datetime(2026, 3, 29, 12, tzinfo=oslo)
    before = make_record(date=datetime(2026, 3, 28, 12, tzinfo=oslo))
    assert score(before, now, CONFIG) == score(
        make_record(date=now.astimezone(UTC) - timedelta(hours=23)), now, CONFIG
    )


def test_naive_now_is_refused() -> None:
    with pytest.raises(InvalidValue, match="now"):
        rank([], datetime(2026, 3, 15), CONFIG)
