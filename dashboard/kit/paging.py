"""Pages of a newest-first list: page 1,000 costs as much as page 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Model, QuerySet

from contextopt.errors import InvalidInput
from contextopt.paging import by_moment

PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class Page[Row: Model]:
    """One page of rows; `older` is the cursor of the next page, empty on the last."""

    rows: Sequence[Row]
    older: str
    is_first: bool


def newest_page[Row: Model](
    rows: QuerySet[Row], moment: str, cursor: str, size: int = PAGE_ROWS
) -> Page[Row]:
    """Return the rows after the cursor, ordered by the time field `moment` and then id, newest first.

    An unreadable cursor is ignored: links get cut off, and page 1 is a fair answer.
    """
    key = _read_key(cursor)
    shown, older = by_moment("page", moment).page(rows, key, size)
    return Page(shown, older or "", key is None)


def cursor_moment(cursor: str) -> datetime | None:
    """Return the cursor's moment; None if it cannot be read."""
    key = _read_key(cursor)
    return key[0] if key else None


def _read_key(cursor: str) -> tuple[Any, ...] | None:
    try:
        return by_moment("page", "").decode(cursor)
    except InvalidInput:
        return None
