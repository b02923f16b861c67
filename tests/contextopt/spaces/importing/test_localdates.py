"""Dates as spreadsheets and people write them, in the zone and order of the team."""

from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pytest

from contextopt.spaces.importing.localdates import (
    BY_TEAM,
    BY_ZONE,
    EXCEL_NOTICE,
    JUDGED_ROWS,
    MIXED,
    UNDECIDED,
    LocalDates,
    is_month_first,
    resolve_dates,
)
from contextopt.spaces.importing.rows import Found, Notice, RawRow, ReadOptions

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


def read(dates: tuple[str, ...], options: ReadOptions) -> tuple[list[str], list[str]]:
    """Return the days and the notices."""
    found = list(resolve_dates(rows_of(*dates), options))
    days = [str(row.fields["date"])[:10] for row in found if isinstance(row, RawRow)]
    return days, [row.message for row in found if isinstance(row, Notice)]


@pytest.mark.parametrize(
    ("dates", "zone", "expected"),
    [
        # One date that can only be read in one order decides for the others.
        (("03/04/2026", "13/04/2026"), NEW_YORK, ["2026-04-03", "2026-04-13"]),
        (("03/04/2026", "04/13/2026"), OSLO, ["2026-03-04", "2026-04-13"]),
        # Dates with points never have the month first, and say nothing about the others.
        (("03.04.2026", "04/25/2026"), OSLO, ["2026-04-03", "2026-04-25"]),
        # A date that is the same in both orders needs no notice.
        (("04/04/2026", "4.3.2026"), NEW_YORK, ["2026-04-04", "2026-03-04"]),
    ],
)
def test_the_order_follows_the_dates_of_the_column(
    dates: tuple[str, ...], zone: ZoneInfo, expected: list[str]
) -> None:
    assert read(dates, ReadOptions(zone)) == (expected, [])


def test_a_date_far_below_decides_for_the_whole_column() -> None:
    days, notices = read((*["03/04/2026"] * (JUDGED_ROWS + 500), "13/04/2026"), ReadOptions(NEW_YORK))
    assert (set(days), notices) == ({"2026-04-03", "2026-04-13"}, [])


def test_dates_that_contradict_each_other_are_read_as_they_can_be_and_named() -> None:
    dates = ("13/04/2026", "04/13/2026", "05/06/2026")
    days, notices = read(dates, ReadOptions(OSLO))
    assert days == ["2026-04-13", "2026-04-13", "2026-06-05"]
    assert notices == [MIXED.format(column="date", sample="05/06/2026", order="day", why=BY_ZONE)]
    # Said by a person, the order holds. The date that has another one is not guessed.
    assert read(dates, ReadOptions(OSLO, month_first=False)) == (
        ["2026-04-13", "04/13/2026", "2026-06-05"],
        [],
    )


@pytest.mark.parametrize(
    ("zone", "order", "day", "shown", "why"),
    [
        (OSLO, "", "2026-04-03", "day", BY_ZONE),
        (NEW_YORK, "", "2026-03-04", "month", BY_ZONE),
        (OSLO, "month", "2026-03-04", "month", BY_TEAM),
        (NEW_YORK, "day", "2026-04-03", "day", BY_TEAM),
    ],
)
def test_an_order_that_no_date_shows_is_that_of_the_team_and_is_named(
    zone: ZoneInfo, order: str, day: str, shown: str, why: str
) -> None:
    days, notices = read(("03/04/2026",), ReadOptions(zone, date_order=order))
    assert days == [day]
    assert notices == [UNDECIDED.format(column="date", sample="03/04/2026", order=shown, why=why)]
    is_month_first = shown == "month"
    said = ReadOptions(zone, date_order=order, month_first=not is_month_first)
    assert read(("03/04/2026",), said) == (["2026-03-04" if not is_month_first else "2026-04-03"], [])


def test_each_column_has_its_own_order() -> None:
    row = {"title": "t", "date": "25/03/2026", "last_viewed_at": "03/04/2026"}
    notice, found = resolve_dates(iter([RawRow(2, dict(row), 10)]), ReadOptions(NEW_YORK))
    assert isinstance(notice, Notice) and notice.message.startswith(
        "last_viewed_at: dates such as 03/04/2026"
    )
    assert isinstance(found, RawRow)
    assert (str(found.fields["date"])[:10], str(found.fields["last_viewed_at"])[:10]) == (
        "2026-03-25",
        "2026-03-04",
    )


def test_days_that_a_spreadsheet_counts_are_dates_in_tables_alone() -> None:
    numbers = ("46350", "46350.5", "46350,25", "12", "99999", "1700000000")
    assert dates_of(resolve_dates(rows_of(*numbers), ReadOptions(OSLO))) == list(numbers)
    found = list(resolve_dates(rows_of(*numbers), ReadOptions(OSLO), is_table=True))
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
