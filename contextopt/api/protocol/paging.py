"""Pages of lists, and the cursor to the next page."""

from collections.abc import Callable
from typing import Annotated

from django.db.models import Model, QuerySet
from pydantic import Field

from contextopt.inputs import Input, Text
from contextopt.paging import Keyset

LIMIT_DEFAULT = 50
LIMIT_MAX = 200
CURSOR_MAX = 1_000


class PageQuery(Input):
    """Which page of a list to return."""

    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX, description="Rows per page.")] = LIMIT_DEFAULT
    cursor: Annotated[
        Text | None,
        Field(
            max_length=CURSOR_MAX,
            description="The `next_cursor` of the previous page. Omit it for the first page.",
        ),
    ] = None


def match_given[Row: Model](rows: QuerySet[Row], **filters: object) -> QuerySet[Row]:
    """Return the rows that match the filters. One that is None was not given."""
    return rows.filter(**{name: value for name, value in filters.items() if value is not None})


def list_page[Row: Model, Json](
    rows: QuerySet[Row], keyset: Keyset, page: PageQuery, to_row: Callable[[Row], Json]
) -> dict[str, object]:
    """Return one page and the cursor to the next, or None on the last page."""
    key = None if page.cursor is None else keyset.decode(page.cursor)
    shown, next_cursor = keyset.page(rows, key, page.limit)
    return {"items": [to_row(row) for row in shown], "next_cursor": next_cursor}
