"""Render a context: a header about the space, a blank line, one line per record.

::

    Space: Platform team
    How we run the clusters, and what went wrong when.
    Categories: incidents, decisions

    - [decision] Move to PostgreSQL 18 (2026-03-02) #database #upgrade: Agreed after the second…

A record is always one line, so it cannot imitate a second record or the header.

In a context for a question, if all records are messages of one day, the header has their date instead.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from itertools import islice
from typing import NamedTuple

from contextopt.engine.ranking import Scored
from contextopt.engine.settings import RecordOrder
from contextopt.engine.text.cleaning import ELLIPSIS, flatten, flatten_to, grapheme_boundary
from contextopt.engine.text.tokens import MAX_CHARS_PER_TOKEN, Tokenizer
from contextopt.engine.validation import utc
from contextopt.engine.values import LINE_START, RecordSummary, SpaceContext

TITLE_CHARS = 120
TYPE_CHARS = 32
TAG_CHARS = 32
MAX_TAGS = 8
EXCERPT_CHARS = 100
UNTITLED = "Untitled"
MESSAGE = "message"
"""Type of the records whose title is the name of the person who wrote them."""

_FIRST_GUESS_CHARS = 64


def summary_line(title: str, type: str, date: datetime, tags: Iterable[str], notes: str) -> str:
    """Return `- [type] title (YYYY-MM-DD) #tag1 #tag2: excerpt` with its line break; the date is in UTC.

    Empty parts are left out, except for the title, which becomes "Untitled". Titles are cut at 120
    characters, types and tags at 32, notes at 100. The first 8 non-empty tags count, without their own "#".

    Raises:
        InvalidValue: the date is naive or outside the years 1 to 9999.
    """
    return with_excerpt(line_start(title, type, date, tags), flatten_to(notes, EXCERPT_CHARS))


def line_start(title: str, type: str, date: datetime, tags: Iterable[str], *, has_date: bool = True) -> str:
    """Return a record's line up to its excerpt; see `summary_line`. The date may be in the header instead."""
    shown_type = flatten_to(type, TYPE_CHARS)
    bracket = f"[{shown_type}] " if shown_type else ""
    shown_title = flatten_to(title, TITLE_CHARS) or UNTITLED
    day = f" ({utc('date', date).date().isoformat()})" if has_date else ""
    shown = (flatten_to(tag.lstrip("# "), TAG_CHARS) for tag in tags)
    hashtags = "".join(f" #{tag}" for tag in islice(filter(None, shown), MAX_TAGS))
    return f"{LINE_START}{bracket}{shown_title}{day}{hashtags}"


def question_start(
    title: str, type: str, date: datetime, tags: Iterable[str], *, has_date: bool = True
) -> str:
    """Return a record's line in a context for a question, up to its excerpt; see `line_start`.

    The type of a message is left out, since a name before a text is clear and most messages are short. If the
    title has a bracket, the type stays, so that the title cannot pose as another type.
    """
    is_clear = type == MESSAGE and "[" not in title
    return line_start(title, "" if is_clear else type, date, tags, has_date=has_date)


def with_excerpt(start: str, excerpt: str) -> str:
    """Return the whole line; the excerpt is already one printable line."""
    return f"{start}: {excerpt}\n" if excerpt else f"{start}\n"


class Header(NamedTuple):
    """The three parts of a header, each one line of flat text."""

    name: str
    description: str
    categories: str

    def __str__(self) -> str:
        lines = (
            f"Space: {self.name}\n" if self.name else "",
            f"{self.description}\n" if self.description else "",
            f"Categories: {self.categories}\n" if self.categories else "",
        )
        return "".join(lines)


def header_parts(space: SpaceContext) -> Header:
    """Return name, description and categories of a space, each on one line."""
    categories = filter(None, map(flatten, space.categories))
    return Header(flatten(space.name) or UNTITLED, flatten(space.description), ", ".join(categories))


def header(space: SpaceContext, day: date | None = None) -> str:
    """Return the space's lines, each ending in a line break, and the day of all records if given."""
    return f"{header_parts(space)}{_day_line(day) if day else ''}"


def _day_line(day: date) -> str:
    return f"Date: {day.isoformat()}\n"


class FittedHeader(NamedTuple):
    """A header within its budget."""

    text: str
    tokens: int
    is_cut: bool


def fit_header(space: SpaceContext, budget_tokens: int, tokenizer: Tokenizer) -> FittedHeader:
    """Return the header, cut to the budget: the description first, then the categories, then the name.

    A cut is at a grapheme boundary and ends in "…". At budget 0 the text is empty.
    """
    parts = header_parts(space)

    def fits(candidate: Header) -> bool:
        text = str(candidate)
        return len(text) <= budget_tokens * MAX_CHARS_PER_TOKEN and tokenizer.count(text) <= budget_tokens

    is_cut = not fits(parts)
    if is_cut:
        parts = _cut_header(parts, fits)
    text = str(parts)
    return FittedHeader(text, tokenizer.count(text), is_cut)


def add_day(fitted: FittedHeader, day: date, budget_tokens: int, tokenizer: Tokenizer) -> FittedHeader:
    """Return the header with the day of all records, or as cut if the day does not fit."""
    text = fitted.text + _day_line(day)
    tokens = tokenizer.count(text)
    if fitted.is_cut or tokens > budget_tokens:
        return fitted._replace(is_cut=True)
    return FittedHeader(text, tokens, is_cut=False)


def _cut_header(parts: Header, fits: Callable[[Header], bool]) -> Header:
    for field in ("description", "categories", "name"):
        without = parts._replace(**{field: ""})
        if fits(without):
            return _longest(parts, field, fits)
        parts = without
    return parts


def _longest(parts: Header, field: str, fits: Callable[[Header], bool]) -> Header:
    """Find the longest beginning of one part that fits. The empty beginning always does.

    The search goes from short to long, so no candidate is much longer than the result.
    """
    whole = getattr(parts, field)

    def shortened(chars: int) -> Header:
        beginning = whole[: grapheme_boundary(whole, chars)].rstrip()
        return parts._replace(**{field: beginning + ELLIPSIS if chars else ""})

    low, high = 0, _FIRST_GUESS_CHARS
    while high < len(whole) and fits(shortened(high)):
        low, high = high, 2 * high
    high = min(high, len(whole)) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if fits(shortened(middle)):
            low = middle
        else:
            high = middle - 1
    return shortened(low)


def order_records(kept: Sequence[Scored], record_order: RecordOrder) -> list[RecordSummary]:
    """Return the chosen records in rendering order.

    "score": as ranked. "stable": by date, then id, oldest first, so that a prompt that gains a new record
    only grows at its end and keeps its prefix.
    """
    records = [scored.record for scored in kept]
    if record_order == "stable":
        records.sort(key=lambda record: (record.date, record.id))
    return records


def render(space: SpaceContext, records: Iterable[RecordSummary]) -> str:
    """Return the whole text, uncut."""
    return join_lines(header(space), records)


def join_lines(header_text: str, records: Iterable[RecordSummary]) -> str:
    """Return a context's text: the header, a blank line, and the records' lines in the given order.

    Without a header, the text has only the lines.
    """
    lines = "".join([record.line for record in records])
    return f"{header_text}\n{lines}" if header_text and lines else header_text or lines


def record_lines(text: str, order: Sequence[int]) -> dict[int, str]:
    """Return the line of each record in a context's text, which ends with its records in this order."""
    lines = text.removesuffix("\n").split("\n")[-len(order) :] if order else []
    return {record_id: f"{line}\n" for record_id, line in zip(order, lines, strict=True)}
