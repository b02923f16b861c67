"""Reads dates as people and spreadsheets write them, in the time zone and the order of a team."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from itertools import chain
from zoneinfo import ZoneInfo

from contextopt.limits import DATE_MAX, DATE_MIN
from contextopt.people.models import DateOrder
from contextopt.spaces.importing.rows import Found, Notice, RawRow, ReadOptions

DATE_FIELDS = ("date", "last_viewed_at", "deleted_at")
# The order of 03/04/2026 is judged by this many rows, and by more if they show none, up to this size.
JUDGED_ROWS, JUDGED_BYTES = 1_000, 32 * 2**20
# Spreadsheets count days from here. The numbers of other years are more likely something else.
EXCEL_START = datetime(1899, 12, 30)  # noqa: DTZ001 - a spreadsheet's days have no time zone
EXCEL_DAYS = range(20_000, 80_000)
NAME_SHOWN = 40
EXCEL_NOTICE = "a number was read as a spreadsheet's date"
UNDECIDED = (
    "{column}: dates such as {sample} were read {order} first, {why}, since no date in the column "
    "shows the order"
)
MIXED = (
    "{column}: some dates have the day first and some the month; those that can be both, such as "
    "{sample}, were read {order} first, {why}"
)
BY_TEAM, BY_ZONE = "as the team's settings say", "as is usual in the team's time zone"

_WITH_OFFSET = len("2026-01-31T12:00:00Z")
# The time zones of countries that write the month first.
_MONTH_FIRST = re.compile(
    r"US/.+|(?:EST5EDT|CST6CDT|MST7MDT|PST8PDT|EST|MST|HST)|Asia/Manila|Pacific/(?:Honolulu|Guam|Saipan|Pago_Pago"
    r"|Midway|Wake)|America/(?:New_York|Detroit|Chicago|Menominee|Denver|Boise|Phoenix|Los_Angeles|Anchorage"
    r"|Juneau|Sitka|Metlakatla|Yakutat|Nome|Adak|Puerto_Rico|St_Thomas|Louisville|Fort_Wayne|Indianapolis"
    r"|(?:Kentucky|Indiana|North_Dakota)/.+)"
)
_TIME = (
    r"(?:[ T,]+(?P<hour>\d{1,2})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d)(?:[.,]\d+)?)?"
    r"(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?)?"
)
_DAY_OR_MONTH_FIRST = re.compile(
    r"(?P<one>\d{1,2})(?P<mark>[./-])\s?(?P<two>\d{1,2})(?P=mark)\s?(?P<year>\d{4}|\d\d)" + _TIME
)
_YEAR_FIRST = re.compile(
    r"(?P<year>\d{4})(?:[./]|年)\s?(?P<two>\d{1,2})(?:[./]|月)\s?(?P<one>\d{1,2})[.日]?" + _TIME
)
_EXCEL = re.compile(r"(\d{5})(?:[.,](\d{1,12}))?")


def is_month_first(zone: ZoneInfo) -> bool:
    """Return whether people in this time zone write the month before the day."""
    return _MONTH_FIRST.fullmatch(zone.key) is not None


def month_first_of(options: ReadOptions) -> bool:
    """Return whether the month comes first in dates that do not show it."""
    if options.month_first is not None:
        return options.month_first
    if options.date_order == DateOrder.ZONE:
        return is_month_first(options.zone)
    return options.date_order == DateOrder.MONTH


@dataclass(frozen=True, slots=True)
class LocalDates:
    """Reads dates and times without an offset as those of a time zone.

    If the orders of a column are `mixed`, a date that has only one reading gets it, whatever the order.
    """

    zone: ZoneInfo
    is_month_first: bool = False
    is_mixed: bool = False

    def read(self, text: str) -> str | None:
        """Return a date-time in ISO format with its offset, None for what is no date of these forms."""
        moment = self._read_iso(text) or self._read_numbers(text)
        if moment is None or not DATE_MIN.year <= moment.year < DATE_MAX.year:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=self.zone)).isoformat()

    def read_number(self, text: str) -> str | None:
        """Return the moment that a spreadsheet stores as this number of days, None for any other text."""
        found = _EXCEL.fullmatch(text)
        if found is None or int(found[1]) not in EXCEL_DAYS:
            return None
        days = float(f"{found[1]}.{found[2] or 0}")
        moment = EXCEL_START + timedelta(seconds=round(days * 86_400))
        return moment.replace(tzinfo=self.zone).isoformat()

    def _read_iso(self, text: str) -> datetime | None:
        if len(text) < len("2026-01-31") or (text[4] != "-" and text[8] != "T"):
            return None
        try:
            if len(text) == len("2026-01-31"):
                day = date.fromisoformat(text)
                return datetime(day.year, day.month, day.day)  # noqa: DTZ001 - `read` adds the zone
            return datetime.fromisoformat(text)
        except ValueError:
            return None

    def _read_numbers(self, text: str) -> datetime | None:
        found = _DAY_OR_MONTH_FIRST.fullmatch(text) or _YEAR_FIRST.fullmatch(text)
        if found is None:
            return None
        parts = found.groupdict()
        day, month = int(parts["one"]), int(parts["two"])
        # Points are never written between month, day and year in this order.
        if self.is_month_first and parts.get("mark") in {"/", "-"}:
            day, month = month, day
        if self.is_mixed and month > 12 and parts.get("mark") in {"/", "-"}:
            day, month = month, day
        year, hour = int(parts["year"]), int(parts["hour"] or 0)
        if year < 100:
            year += 1900 if year >= 70 else 2000
        if parts["half"]:
            if not 1 <= hour <= 12:
                return None
            hour = hour % 12 + (12 if parts["half"] in "Pp" else 0)
        try:
            return datetime(year, month, day, hour, int(parts["minute"] or 0), int(parts["second"] or 0))  # noqa: DTZ001
        except ValueError:
            return None


@dataclass(slots=True)
class _Column:
    """What the dates of a column show: which orders, and one that can be read in both."""

    shown: set[bool] = field(default_factory=set)
    sample: str = ""

    def add(self, text: str) -> None:
        found = _DAY_OR_MONTH_FIRST.fullmatch(text)
        # Points are never written between month, day and year in this order.
        if found is None or found["mark"] == ".":
            return
        one, two = int(found["one"]), int(found["two"])
        if (one > 12) != (two > 12):
            self.shown.add(two > 12)
        elif one <= 12 and one != two and not self.sample:
            self.sample = text

    @property
    def is_open(self) -> bool:
        return bool(self.sample) and not self.shown

    def dates(self, options: ReadOptions) -> LocalDates:
        """Return the reader of this column: in the order that its dates show, or else in the usual one."""
        if options.month_first is None and len(self.shown) == 1:
            return LocalDates(options.zone, next(iter(self.shown)))
        is_mixed = options.month_first is None and len(self.shown) == 2
        return LocalDates(options.zone, month_first_of(options), is_mixed)

    def notice(self, name: str, options: ReadOptions) -> Notice | None:
        """Return what a person should know of the order."""
        if options.month_first is not None or len(self.shown) == 1 or not self.sample:
            return None
        order = "month" if month_first_of(options) else "day"
        why = BY_ZONE if options.date_order == DateOrder.ZONE else BY_TEAM
        message = MIXED if self.shown else UNDECIDED
        return Notice(0, message.format(column=name, sample=self.sample[:NAME_SHOWN], order=order, why=why))


def resolve_dates(rows: Iterator[Found], options: ReadOptions, *, is_table: bool = False) -> Iterator[Found]:
    """Yield the rows with their dates in ISO format. Texts that are no dates stay as they are.

    In each column, the dates with only one reading decide whether the day or the month comes first. Without
    any, it is the order of the team. In tables, numbers may be dates as spreadsheets store them.
    """
    columns = {name: _Column() for name in DATE_FIELDS}
    head: list[Found] = []
    size = 0
    for row in rows if options.month_first is None else ():
        head.append(row)
        if isinstance(row, RawRow):
            size += row.size
            for name, value in _unresolved(row.fields):
                columns[name].add(value.strip())
        is_enough = len(head) >= JUDGED_ROWS and not any(each.is_open for each in columns.values())
        if is_enough or size >= JUDGED_BYTES:
            break
    readers = {name: column.dates(options) for name, column in columns.items()}
    notices = (column.notice(name, options) for name, column in columns.items())
    yield from (notice for notice in notices if notice)
    for row in chain(head, rows):
        if isinstance(row, RawRow) and (given := _unresolved(row.fields)):
            yield from _with_dates(row, given, readers, is_table)
        else:
            yield row


def _unresolved(fields: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the dates that are texts, without those that have an offset already, as most in JSON do."""
    return [
        (name, value)
        for name in DATE_FIELDS
        if isinstance(value := fields.get(name), str)
        and not (len(value) >= _WITH_OFFSET and value[10] == "T" and (value[-1] == "Z" or value[-6] in "+-"))
    ]


def _with_dates(
    row: RawRow, given: Iterable[tuple[str, str]], readers: Mapping[str, LocalDates], is_table: bool
) -> Iterator[Found]:
    changed: dict[str, object] = {}
    for name, value in given:
        text = value.strip()
        if moment := readers[name].read(text):
            changed[name] = moment
        elif is_table and (moment := readers[name].read_number(text)):
            changed[name] = moment
            yield Notice(row.line, EXCEL_NOTICE, row.file)
    yield replace(row, fields=row.fields | changed) if changed else row
