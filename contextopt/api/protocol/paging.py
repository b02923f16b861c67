"""Pages by keyset: each begins after the last row of the one before, however many were added meanwhile."""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from django.db.models import F, Model, QuerySet
from django.db.models.fields.tuple_lookups import TupleGreaterThan, TupleLessThan
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from contextopt.errors import InvalidInput
from contextopt.inputs import BigInt, Text

LIMIT_DEFAULT = 50
LIMIT_MAX = 200
CURSOR_MAX = 1_000


class PageQuery(BaseModel):
    """Which page of a list."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX, description="Rows a page.")] = LIMIT_DEFAULT
    cursor: Annotated[
        Text | None,
        Field(max_length=CURSOR_MAX, description="`next_cursor` of the page before; none begins the list."),
    ] = None


@dataclass(frozen=True, slots=True)
class Keyset:
    """A total order of rows. `name` keeps a cursor of one list from being read by another."""

    name: str
    fields: tuple[str, ...]
    is_descending: bool
    key: TypeAdapter[tuple[Any, ...]]

    def encode(self, row: Model) -> str:
        values = [getattr(row, field) for field in self.fields]
        return base64.urlsafe_b64encode(to_json([self.name, *values])).decode().rstrip("=")

    def decode(self, cursor: str) -> tuple[Any, ...]:
        """Return the key that a cursor holds.

        Raises:
            InvalidInput: it is not a cursor of this list.
        """
        try:
            name, *values = from_json(base64.b64decode(_padded(cursor), altchars=b"-_", validate=True))
            if name == self.name:
                return self.key.validate_python(tuple(values))
        except (ValidationError, ValueError, TypeError, binascii.Error):
            pass
        raise InvalidInput.of("cursor", "is not a next_cursor that this list gave")

    def order(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.order_by(*(f"-{field}" if self.is_descending else field for field in self.fields))

    def after(self, rows: QuerySet[Any], key: tuple[Any, ...]) -> QuerySet[Any]:
        if len(self.fields) == 1:
            return rows.filter(**{f"{self.fields[0]}__{'lt' if self.is_descending else 'gt'}": key[0]})
        # A comparison of rows is one range of an index over the same columns.
        lookup = TupleLessThan if self.is_descending else TupleGreaterThan
        return rows.filter(lookup(tuple(F(field) for field in self.fields), key))


def _padded(cursor: str) -> str:
    return cursor + "=" * (-len(cursor) % 4)


def _storable(moment: datetime) -> datetime:
    if not 1 < moment.year < 9999:
        raise ValueError("outside the years that can be stored")
    return moment.astimezone(UTC)


MomentKey = Annotated[AwareDatetime, AfterValidator(_storable)]


def by_moment(name: str, field: str) -> Keyset:
    """Newest first, ties by the higher id."""
    key = TypeAdapter(tuple[MomentKey, BigInt])
    return Keyset(name, (field, "id"), is_descending=True, key=key)


def by_number(name: str, field: str) -> Keyset:
    """The highest number first."""
    return Keyset(name, (field,), is_descending=True, key=TypeAdapter(tuple[BigInt]))


def by_text(name: str, field: str) -> Keyset:
    """In the order of a unique text."""
    return Keyset(name, (field,), is_descending=False, key=TypeAdapter(tuple[Text]))


def list_page[Row: Model, Json](
    rows: QuerySet[Row], keyset: Keyset, page: PageQuery, to_row: Callable[[Row], Json]
) -> dict[str, object]:
    """Return one page and the cursor of the next; none when this was the last."""
    ordered = keyset.order(rows)
    if page.cursor is not None:
        ordered = keyset.after(ordered, keyset.decode(page.cursor))
    # One row more than asked for tells whether there is a next page, without counting.
    found = list(ordered[: page.limit + 1])
    shown = found[: page.limit]
    next_cursor = keyset.encode(shown[-1]) if len(found) > page.limit else None
    return {"items": [to_row(row) for row in shown], "next_cursor": next_cursor}
