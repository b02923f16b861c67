"""Pages of a newest-first list by keyset: page 1,000 costs what page 1 costs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import F, Model, QuerySet
from django.db.models.fields.tuple_lookups import TupleLessThan

PAGE_ROWS = 50
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CURSOR = re.compile(r"(-?\d{1,18})\.(\d{1,18})")


@dataclass(frozen=True, slots=True)
class Page[Row: Model]:
    """Some rows; `older` is the cursor of the next page, empty on the last."""

    rows: Sequence[Row]
    older: str
    is_first: bool


def newest_page[Row: Model](
    rows: QuerySet[Row], moment: str, cursor: str, size: int = PAGE_ROWS
) -> Page[Row]:
    """Return the rows after the cursor, by the time field `moment` and then id, newest first.

    A cursor that cannot be read counts as none: links get cut, and page 1 is a fair answer.
    """
    key = _decode(cursor)
    ordered = rows.order_by(F(moment).desc(), F("id").desc())
    if key is not None:
        ordered = ordered.filter(TupleLessThan((F(moment), F("id")), key))
    found = list(ordered[: size + 1])
    shown = found[:size]
    older = _encode(shown[-1], moment) if len(found) > size else ""
    return Page(shown, older, key is None)


def cursor_moment(cursor: str) -> datetime | None:
    """Return the moment that a cursor stands at; none where it cannot be read."""
    key = _decode(cursor)
    return key[0] if key else None


def _encode(row: Any, moment: str) -> str:
    microseconds = (getattr(row, moment) - _EPOCH) // timedelta(microseconds=1)
    return f"{microseconds}.{row.pk}"


def _decode(cursor: str) -> tuple[datetime, int] | None:
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=int(match[1])), int(match[2])
    except OverflowError:
        return None
