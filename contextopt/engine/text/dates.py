"""Dates that a question names, in English and Norwegian: "on October 3", "last week", "in May", "i fjor".

A date without a year is the latest one that is not in the future. Names that are words too, such as May and
March, need a preposition, a day or a year beside them.
"""

import calendar
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import islice, zip_longest

import regex

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


READ_MAX = 2_000
"""Only this many characters of a question are read."""
SPANS_MAX = 8

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january januar jan", "february februar feb", "march mars mar", "april apr", "may mai",
            "june juni jun", "july juli jul", "august aug", "september sept sep", "october oktober oct okt",
            "november nov", "december desember dec des",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_SEASONS = {
    "spring": 3, "våren": 3, "summer": 6, "sommeren": 6, "autumn": 9, "fall": 9, "høsten": 9,
    "winter": 12, "vinteren": 12,
}  # fmt: skip
_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            "monday mandag", "tuesday tirsdag", "wednesday onsdag", "thursday torsdag", "friday fredag",
            "saturday lørdag", "sunday søndag",
        )
    )
    for name in names.split()
}  # fmt: skip
CALENDAR_WORDS = _MONTHS.keys() | _WEEKDAYS.keys()
"""The names of months and days of the week, in lower case."""
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "twelve": 12, "couple of": 2, "a couple of": 2, "few": 3, "a few": 3,
    "en": 1, "ei": 1, "et": 1, "ett": 1, "to": 2, "tre": 3, "fire": 4, "fem": 5, "seks": 6, "syv": 7,
    "sju": 7, "åtte": 8, "ni": 9, "ti": 10, "tolv": 12, "et par": 2, "noen": 3,
}  # fmt: skip
_UNITS = {
    "day": "day", "days": "day", "dag": "day", "dager": "day", "dagene": "day",
    "week": "week", "weeks": "week", "uke": "week", "uka": "week", "uken": "week", "uker": "week",
    "ukene": "week",
    "month": "month", "months": "month", "måned": "month", "måneden": "month", "måneder": "month",
    "månedene": "month",
    "year": "year", "years": "year", "år": "year", "året": "year", "årene": "year",
}  # fmt: skip


def _any_of(names: dict[str, int] | dict[str, str]) -> str:
    return "(?:" + "|".join(sorted(names, key=lambda name: (-len(name), name))) + ")"


_MONTH, _SEASON, _UNIT = rf"(?P<month>{_any_of(_MONTHS)})\.?", _any_of(_SEASONS), _any_of(_UNITS)
_NUMBER = rf"(?P<count>\d{{1,3}}|{_any_of(_NUMBERS)})"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?"
_FROM = r"(?P<from>\d{1,2})"
_YEAR = r"(?P<year>(?:19|20)\d\d)(?!\d|[.,]\d)"
_LAST = r"(?:last|previous|past|forrige|sist|siste)"
_THIS = r"(?:this|denne|dette|inneværende)"
# A preposition. Without one, a name by itself is not a date.
_IN = (
    r"(?<=\b(?:in|of|during|since|from|until|till|by|before|after|between|and|to|this|last|early|mid|late|i|"
    r"fra|siden|til|før|etter|innen|mellom|og|forrige|sist|tidlig|midten av|slutten av)[\s-]+)"
)

type _Read = Callable[[regex.Match[str], date], DateSpan | None]


def _day_in_month(found: regex.Match[str], today: date) -> DateSpan | None:
    month, day, year = _MONTHS[found["month"]], int(found["day"]), found["year"]
    return day_of(int(year), month, day) if year else latest_day(month, day, today)


def _days_in_month(found: regex.Match[str], today: date) -> DateSpan | None:
    last = _day_in_month(found, today)
    if last is None or not 1 <= int(found["from"]) <= last.last.day:
        return None
    return replace(last, first=last.last.replace(day=int(found["from"])))


def _numbers(found: regex.Match[str], _today: date) -> DateSpan | None:
    year = int(found["year"])
    return day_of(year + 2000 if year < 100 else year, int(found["number"]), int(found["day"]))


def _month(found: regex.Match[str], today: date) -> DateSpan | None:
    month = _MONTHS[found["month"]]
    return month_of(int(found["year"]), month) if found["year"] else latest_months(month, today)


def _year(found: regex.Match[str], _today: date) -> DateSpan | None:
    return month_of(int(found["year"]), 1, MONTHS)


def _season(found: regex.Match[str], today: date) -> DateSpan | None:
    month, year = _SEASONS[found["season"]], found["year"]
    return month_of(int(year), month, SEASON_MONTHS) if year else _last_season(month, today)


def _last_season(month: int, today: date) -> DateSpan | None:
    return latest_months(month, today, SEASON_MONTHS)


def _quarter(found: regex.Match[str], today: date) -> DateSpan | None:
    month = 3 * int(found["quarter"]) - 2
    year = found["year"]
    return month_of(int(year), month, 3) if year else latest_months(month, today, 3)


def _rolling(found: regex.Match[str], today: date) -> DateSpan | None:
    return rolling(today, _UNITS[found["unit"]], _count(found["count"]))


def _ago(found: regex.Match[str], today: date) -> DateSpan | None:
    return around(today, _UNITS[found["unit"]], _count(found["count"]))


def _last_unit(found: regex.Match[str], today: date) -> DateSpan | None:
    return around(today, _UNITS[found["unit"]], 1)


def _this_unit(found: regex.Match[str], today: date) -> DateSpan | None:
    span = around(today, _UNITS[found["unit"]], 0)
    return span and replace(span, last=min(span.last, today))


def _count(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text]


def _weekday(found: regex.Match[str], today: date) -> DateSpan:
    return latest_weekday(_WEEKDAYS[found["weekday"]], today)


def _weekend(_found: regex.Match[str], today: date) -> DateSpan:
    saturday = latest_weekday(_WEEKDAYS["saturday"], today).last
    return DateSpan(saturday, saturday + DAY)


def _days_ago(count: int) -> _Read:
    return lambda _found, today: around(today, "day", count)


# The more specific come first, because text that a pattern has matched is hidden from later ones.
_PATTERNS: tuple[tuple[regex.Pattern[str], _Read], ...] = tuple(
    (regex.compile(pattern), read)
    for pattern, read in (
        (r"\b(?P<year>\d{4})[-/](?P<number>\d{1,2})[-/](?P<day>\d{1,2})\b", _numbers),
        (r"(?<![\d.])(?P<day>\d{1,2})\.\s?(?P<number>\d{1,2})\.\s?(?P<year>\d{4}|\d{2})(?!\.?\d)", _numbers),
        (rf"\b{_FROM}\.?\s?(?:-|–|to|and|til|og)\s?{_DAY}\s+{_MONTH}\b(?:,?\s+{_YEAR})?", _days_in_month),
        (rf"\b{_MONTH}\s+{_FROM}\s?(?:-|–|to|and)\s?{_DAY}\b(?:,?\s+{_YEAR})?", _days_in_month),
        (rf"\b{_DAY}(?:\s+of)?\s+{_MONTH}(?!\w)(?:,?\s+{_YEAR})?", _day_in_month),
        (rf"\b{_MONTH}\s+{_DAY}(?!\w)(?:,?\s+{_YEAR})?", _day_in_month),
        (rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}", _month),
        (rf"\b(?P<season>{_SEASON})(?:\s+of)?\s+{_YEAR}", _season),
        (rf"\bq(?P<quarter>[1-4])\b(?:\s+(?:of\s+)?{_YEAR})?", _quarter),
        (rf"\b(?P<quarter>[1-4])\.\s?kvartal\b(?:\s+{_YEAR})?", _quarter),
        (r"\bday before yesterday\b|\bi forgårs\b", _days_ago(2)),
        (r"\byesterday\b|\blast night\b|\bi går\b", _days_ago(1)),
        (r"\btoday\b|\bthis morning\b|\btonight\b|\bi dag\b|\bi morges\b|\bi kveld\b", _days_ago(0)),
        (rf"\b(?:(?:last|past|previous)\s+|(?:de\s+)?siste\s+){_NUMBER}\s+(?P<unit>{_UNIT})\b", _rolling),
        (rf"\b{_NUMBER}\s+(?P<unit>{_UNIT})\s+(?:ago|siden)\b", _ago),
        (rf"\b{_LAST}\s+(?P<unit>{_UNIT})\b", _last_unit),
        (rf"\b{_THIS}\s+(?P<unit>{_UNIT})\b", _this_unit),
        (r"\bi fjor\b", lambda _found, today: around(today, "year", 1)),
        (r"\bi år\b", lambda _found, today: DateSpan(date(today.year, 1, 1), today)),
        (r"\b(?:last|this|over the)\s+weekend\b|\bi helg(?:a|en)\b|\b(?:forrige|sist) helg\b", _weekend),
        (rf"\b(?:last|on|this|sist|forrige|på)\s+(?P<weekday>{_any_of(_WEEKDAYS)})\b", _weekday),
        (rf"\b(?:last|this|in the)\s+(?P<season>{_SEASON})\b(?P<year>)", _season),
        (r"\bi sommer\b", lambda _found, today: _last_season(6, today)),
        (r"\bi høst\b", lambda _found, today: _last_season(9, today)),
        (r"\bi vinter\b", lambda _found, today: _last_season(12, today)),
        (rf"{_IN}{_MONTH}(?P<year>)(?!\w)", _month),
        (rf"{_IN}(?:(?:the )?year |året )?{_YEAR}(?!\w)", _year),
    )
)  # fmt: skip

_JOINT = regex.compile(r"\s*(?:and|to|until|till|through|og|til|-|–)\s*")
_OPENING = regex.compile(r"\b(?:between|from|mellom|fra)\s*$")
_SINCE = regex.compile(r"\b(?:since|after|siden|etter|fra og med)\s+(?:the\s+)?$")
_BEFORE = regex.compile(r"\b(?:before|until|till|før|innen)\s+(?:the\s+)?$")


@dataclass(frozen=True, slots=True)
class _Found:
    """A span and its place in the text."""

    start: int
    end: int
    span: DateSpan


def named_spans(question: str, today: date) -> tuple[DateSpan, ...]:
    """Return the spans of days that a question names, relative to today, in the order of the text."""
    text = question[:READ_MAX].lower()
    found = sorted(_read(text, today), key=lambda one: one.start)
    return tuple(islice(_join(text, found, today), SPANS_MAX))


def _read(text: str, today: date) -> Iterator[_Found]:
    for pattern, read in _PATTERNS:
        for match in list(pattern.finditer(text)):
            span = read(match, today)
            if span is not None:
                yield _Found(*match.span(), span)
                text = f"{text[: match.start()]}{'#' * len(match[0])}{text[match.end() :]}"


def _join(text: str, found: list[_Found], today: date) -> Iterator[DateSpan]:
    """Join "between … and …", and extend the spans after "since" and "before"."""
    rest = iter(zip_longest(found, found[1:]))
    for one, following in rest:
        before = text[: one.start]
        if following and _OPENING.search(before) and _JOINT.fullmatch(text[one.end : following.start]):
            yield _between(one.span, following.span)
            next(rest)
        elif _SINCE.search(before) and one.span.last <= today:
            yield replace(one.span, last=today)
        elif _BEFORE.search(before) and one.span.first is not None and one.span.first > date.min:
            yield DateSpan(None, one.span.first - DAY)
        else:
            yield one.span


def _between(one: DateSpan, other: DateSpan) -> DateSpan:
    """Return the days from one span to the other. If the first is later, use its latest day before that."""
    first = one.first
    if first is not None and first > other.last:
        earlier = latest_day(first.month, first.day, other.last)
        first = earlier.first if earlier else other.first
    return DateSpan(first, other.last)
