from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from contextopt.engine.validation import EngineError, InvalidValue
from contextopt.engine.values import DateRange, FilterCounts, RecordSummary, SpaceContext
from tests.contextopt.engine.factories import NOW, make_record, make_space


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"id": -1}, "id"),
        ({"id": 2**63}, "id"),
        ({"id": True}, "id"),
        ({"date": datetime(2026, 3, 1)}, "date"),
        ({"date": "2026-03-01"}, "date"),
        ({"date": datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))}, "date"),
        ({"view_count": -1}, "view_count"),
        ({"view_count": 1.0}, "view_count"),
        ({"tokens": 0}, "tokens"),
        ({"line": "- a"}, "line"),
        ({"line": "a\n"}, "line"),
        ({"line": "- a\n- b\n"}, "line"),
        ({"line": "- \ud800\n"}, "line"),
        ({"line": None}, "line"),
    ],
)
def test_record_names_the_field_at_fault(overrides: dict[str, object], field: str) -> None:
    values: dict[str, Any] = {"id": 1, "date": NOW, "view_count": 0, "line": "- a\n", "tokens": 3}
    with pytest.raises(InvalidValue) as caught:
        RecordSummary(**values | overrides)
    assert caught.value.field == field
    assert isinstance(caught.value, EngineError)


def test_record_date_is_kept_in_utc() -> None:
    oslo = datetime(2026, 3, 29, 3, 30, tzinfo=ZoneInfo("Europe/Oslo"))
    record = make_record(date=oslo)
    assert record.date.tzinfo is UTC
    assert record.date == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


def test_record_is_immutable() -> None:
    with pytest.raises(AttributeError):
        make_record().view_count = 3  # type: ignore[misc]


def test_space_refuses_a_record_twice() -> None:
    with pytest.raises(InvalidValue, match="records: must hold each record once; 1 occurs twice"):
        make_space(make_record(1), make_record(1))


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": "\ud800"}, "name"),
        ({"name": None}, "name"),
        ({"description": 5}, "description"),
        ({"categories": ["a"]}, "categories"),
        ({"categories": ("\udfff",)}, "categories"),
        ({"records": []}, "records"),
    ],
)
def test_space_names_the_field_at_fault(values: dict[str, object], field: str) -> None:
    defaults: dict[str, Any] = {"name": "a", "description": "", "categories": ()}
    with pytest.raises(InvalidValue) as caught:
        SpaceContext(**defaults | values)
    assert caught.value.field == field


def test_window_includes_both_ends_and_clock_skew() -> None:
    window = DateRange.ending_at(NOW, 14)
    tick = timedelta(microseconds=1)
    assert NOW - timedelta(days=14) in window
    assert NOW - timedelta(days=14) - tick not in window
    assert NOW + timedelta(hours=24) in window
    assert NOW + timedelta(hours=24) + tick not in window


def test_window_without_days_has_no_start() -> None:
    window = DateRange.ending_at(NOW, None)
    assert window.start is None
    assert datetime.min.replace(tzinfo=UTC) in window


@pytest.mark.parametrize("moment", [datetime.min, datetime.max])
@pytest.mark.parametrize("days", [None, 1, 3650, 10**9])
def test_window_at_the_ends_of_time(moment: datetime, days: int | None) -> None:
    moment = moment.replace(tzinfo=UTC)
    assert moment in DateRange.ending_at(moment, days)


def test_an_invalid_window_is_refused() -> None:
    with pytest.raises(InvalidValue, match="start"):
        DateRange(NOW, NOW - timedelta(days=1))
    with pytest.raises(InvalidValue, match="window_days"):
        DateRange.ending_at(NOW, 0)
    with pytest.raises(InvalidValue, match="end"):
        DateRange(None, datetime(2026, 1, 1))


def test_counts_are_checked() -> None:
    with pytest.raises(InvalidValue, match="outside_window: must be from 0"):
        FilterCounts(1, -1)
