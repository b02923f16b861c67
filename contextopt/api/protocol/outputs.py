"""Builds the responses of endpoints: one value, a page of a list, or lines of CSV."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, TypedDict

from django.db.models import Model, QuerySet
from django.http import HttpResponse
from pydantic import Field
from pydantic_core import to_json

from contextopt.inputs import Input, Text
from contextopt.paging import Keyset


def reply(data: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return data as JSON without validating our own output again."""
    return HttpResponse(
        to_json(data, inf_nan_mode="null"),
        status=status,
        content_type="application/json",
        headers=dict(headers or {}),
    )


def created(data: object, location: str) -> HttpResponse:
    return reply(data, status=201, headers={"Location": location})


def page_of(row: type) -> Any:
    """Return the response type of a list, named after its rows: `RecordPage` has items of `RecordRow`."""
    name = re.sub("(Out|Row)$", "Page", row.__name__)
    return TypedDict(name, {"items": list[row], "next_cursor": str | None})  # type: ignore[operator,valid-type]


# A spreadsheet runs a cell that starts with one of these.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class _Echo:
    """A file whose write returns what was written."""

    def write(self, line: str) -> str:
        return line


def csv_lines(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """Yield the header and each row as text."""
    writer = csv.writer(_Echo())
    yield writer.writerow(list(header))
    for row in rows:
        yield writer.writerow([_cell(value) for value in row])


def _cell(value: Any) -> Any:
    """Return text so that a spreadsheet keeps it as text. Numbers stay unchanged."""
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value


LIMIT_DEFAULT = 50
LIMIT_MAX = 200
CURSOR_MAX = 1_000


class PageQuery(Input):
    """Which page of a list to return."""

    # Subclasses add filters. Here are the lookups of those that have another name; None is no lookup.
    lookups: ClassVar[Mapping[str, str | None]] = {}

    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX, description="Rows per page.")] = LIMIT_DEFAULT
    cursor: Annotated[
        Text | None,
        Field(
            max_length=CURSOR_MAX,
            description="The `next_cursor` of the previous page. Omit it for the first page.",
        ),
    ] = None

    def where[Row: Model](self, rows: QuerySet[Row]) -> QuerySet[Row]:
        """Return the rows that match the given filters."""
        given = self.model_dump(exclude={"limit", "cursor"}, exclude_none=True)
        lookups = {self.lookups.get(name, name): value for name, value in given.items()}
        return rows.filter(**{lookup: value for lookup, value in lookups.items() if lookup})


def list_page[Row: Model, Json](
    rows: QuerySet[Row], keyset: Keyset, page: PageQuery, to_row: Callable[[Row], Json]
) -> dict[str, object]:
    """Return one page and the cursor to the next, or None on the last page."""
    key = None if page.cursor is None else keyset.decode(page.cursor)
    shown, next_cursor = keyset.page(rows, key, page.limit)
    return {"items": [to_row(row) for row in shown], "next_cursor": next_cursor}
