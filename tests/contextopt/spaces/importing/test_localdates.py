"""Dates as spreadsheets and people write them, in the zone and order of the team."""

from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pytest

from contextopt.spaces.importing.localdates import (
    EXCEL_NOTICE,
    UNDECIDED,
    LocalDates,
    is_month_first,
    resolve_dates,
)
from contextopt.spaces.importing.rows import Found, Notice, RawRow

OSLO, NEW_YORK, UTC = ZoneInfo("Europe/Oslo"), ZoneInfo("America/New_York"), ZoneInfo("UTC")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("20.11.2026", "2026-11-20T00:00:00+01:00"),
        ("1.7.26", "2026-07-01T00:00:00+02:00"),
        ("1.7.99", "1999-07-01T00:00:00+02:00"),
        ("20. 11. 2026", "2026-11-20T00:00:00+01:00"),
        ("20.11.2026 14:30", "2026-11-20T14:30:00+01:00"),
        ("20.11.2026, 14.30", "2026-11-20T14:30:00+01:00"),
        ("20/11/2026 02:30:05 PM", "2026-11-20T14:30:05+01:00"),
        ("20-11-2026 12:00 a.m.", "2026-11-20T00:00:00+01:00"),
        ("03/04/2026", "2026-04-03T00:00:00+02:00"),
        ("2026/11/20", "2026-11-20T00:00:00+01:00"),
        ("2026年11月20日", "2026-11-20T00:00:00+01:00"),
        ("2026. 11. 20.", "2026-11-20T00:00:00+01:00"),
        ("2026-11-20", "2026-11-20T00:00:00+01:00"),
        ("2026-11-20 14:30", "2026-11-20T14:30:00+01:00"),
        ("2026-11-20T14:30:00Z", "2026-11-20T14:30:00+00:00"),
        ("2026-11-20T14:30:00-05:00", "2026-11-20T14:30:00-05:00"),
    ],
)
def test_a_date_of_any_usual_form_is_read(text: str, moment: str) -> None:
    assert LocalDates(OSLO).read(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "31.02.2026",
        "20.11.2026 25:00",
        "20.11.2026 0:30 pm",
        "1/2",
        "20.11.1200",
        "46350",
        "٣.٤.٢٠٢٦x",
    ],
)
def test_what_is_no_date_is_left_alone(text: str) -> None:
    assert LocalDates(OSLO).read(text) is None


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("America/New_York", True), ("US/Pacific", True), ("America/Indiana/Knox", True), ("Asia/Manila", True),
     ("America/Sao_Paulo", False), ("America/Toronto", False), ("Europe/London", False), ("UTC", False)],
)  # fmt: skip
def test_the_month_comes_first_where_people_write_it_first(zone: str, expected: bool) -> None:
    assert is_month_first(ZoneInfo(zone)) == expected


def rows_of(*dates: str) -> Iterator[Found]:
    return iter([RawRow(line, {"title": "t", "date": date}, 10) for line, date in enumerate(dates, start=2)])


def dates_of(found: Iterator[Found]) -> list[object]:
    return [row.fields["date"] if isinstance(row, RawRow) else str(row) for row in found]


@pytest.mark.parametrize(
    ("dates", "zone", "expected"),
    [
        # One date that can only be read in one order decides for the others.
        (["03/04/2026", "13/04/2026"], NEW_YORK, ["2026-04-03", "2026-04-13"]),
        (["03/04/2026", "04/13/2026"], OSLO, ["2026-03-04", "2026-04-13"]),
        # Dates with points never have the month first, and say nothing about the others.
        (["03.04.2026", "04/05/2026"], NEW_YORK, ["2026-04-03", "2026-04-05"]),
        # Dates that contradict each other are read in the zone's order, and the others stay as they are.
        (["13/04/2026", "04/13/2026"], UTC, ["2026-04-13", "04/13/2026"]),
    ],
)
def test_the_order_follows_the_dates_of_the_file(
    dates: list[str], zone: ZoneInfo, expected: list[str]
) -> None:
    found = [str(date)[:10] for date in dates_of(resolve_dates(rows_of(*dates), zone))]
    assert [date for date in found if not date.startswith("dates such")] == expected


@pytest.mark.parametrize(
    ("zone", "day", "order"), [(OSLO, "2026-04-03", "day"), (NEW_YORK, "2026-03-04", "month")]
)
def test_an_order_that_no_date_shows_is_that_of_the_zone_and_is_named(
    zone: ZoneInfo, day: str, order: str
) -> None:
    notice, row = resolve_dates(rows_of("03/04/2026"), zone)
    assert isinstance(notice, Notice)
    assert notice.message == UNDECIDED.format(order=order)
    assert isinstance(row, RawRow)
    assert str(row.fields["date"]).startswith(day)
    (named,) = resolve_dates(rows_of("03/04/2026"), zone, month_first=True)
    assert isinstance(named, RawRow)
    assert str(named.fields["date"]).startswith("2026-03-04")


def test_days_that_a_spreadsheet_counts_are_dates_in_tables_alone() -> None:
    numbers = ("46350", "46350.5", "46350,25", "12", "99999", "1700000000")
    assert dates_of(resolve_dates(rows_of(*numbers), OSLO)) == list(numbers)
    found = list(resolve_dates(rows_of(*numbers), OSLO, is_table=True))
    assert [each.line for each in found if isinstance(each, Notice) and each.message == EXCEL_NOTICE] == [
        2,
        3,
        4,
    ]
    assert [row.fields["date"] for row in found if isinstance(row, RawRow)] == [
        "2026-11-24T00:00:00+01:00",
        "2026-11-24T12:00:00+01:00",
        "2026-11-24T06:00:00+01:00",
        "12",
        "99999",
        "1700000000",
    ]
