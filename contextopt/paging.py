"""Keyset paging. Each page begins after the last row of the previous one, regardless of rows added since."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from django.db.models import F, Model, QuerySet
from django.db.models.fields.tuple_lookups import TupleGreaterThan, TupleLessThan
from pydantic import AfterValidator, AwareDatetime, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from contextopt.errors import InvalidInput
from contextopt.inputs import BigInt, Text


@dataclass(frozen=True, slots=True)
class Keyset:
    """A total order of rows. `name` keeps one list's cursors out of other lists."""

    name: str
    fields: tuple[str, ...]
    is_descending: bool
    key: TypeAdapter[tuple[Any, ...]]

    def encode(self, row: object) -> str:
        values = [getattr(row, field) for field in self.fields]
        return base64.urlsafe_b64encode(to_json([self.name, *values])).decode().rstrip("=")

    def decode(self, cursor: str) -> tuple[Any, ...]:
        """Return the key in a cursor.

        Raises:
            InvalidInput: it is not a cursor of this list.
        """
        try:
            name, *values = from_json(
                base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            )
            if name == self.name:
                return self.key.validate_python(tuple(values))
        except (ValidationError, ValueError, TypeError, binascii.Error):
            pass
        raise InvalidInput.of("cursor", "is not a next_cursor of this list")

    def page[Row: Model](
        self, rows: QuerySet[Row], key: tuple[Any, ...] | None, limit: int
    ) -> tuple[Sequence[Row], str | None]:
        """Return the rows after a key, or the first ones if it is None, and the cursor of the next page."""
        ordered = rows.order_by(*(f"-{field}" if self.is_descending else field for field in self.fields))
        # One extra row tells whether there is a next page, without counting.
        found = list((self._after(ordered, key) if key else ordered)[: limit + 1])
        return found[:limit], self.encode(found[limit - 1]) if len(found) > limit else None

    def _after[Row: Model](self, rows: QuerySet[Row], key: tuple[Any, ...]) -> QuerySet[Row]:
        if len(self.fields) == 1:
            return rows.filter(**{f"{self.fields[0]}__{'lt' if self.is_descending else 'gt'}": key[0]})
        # A row comparison reads one range of an index over the same columns.
        lookup = TupleLessThan if self.is_descending else TupleGreaterThan
        return rows.filter(lookup(tuple(F(field) for field in self.fields), key))


def _storable(moment: datetime) -> datetime:
    if not 1 < moment.year < 9999:
        raise ValueError("outside the years that can be stored")
    return moment.astimezone(UTC)


MomentKey = Annotated[AwareDatetime, AfterValidator(_storable)]


_BY_MOMENT: TypeAdapter[tuple[Any, ...]] = TypeAdapter(tuple[MomentKey, BigInt])
_BY_NUMBER: TypeAdapter[tuple[Any, ...]] = TypeAdapter(tuple[BigInt])
_BY_TEXT: TypeAdapter[tuple[Any, ...]] = TypeAdapter(tuple[Text])


def by_moment(name: str, field: str) -> Keyset:
    """Return the order newest first; ties go by the higher id."""
    return Keyset(name, (field, "id"), is_descending=True, key=_BY_MOMENT)


def by_number(name: str, field: str) -> Keyset:
    """Return the order highest number first."""
    return Keyset(name, (field,), is_descending=True, key=_BY_NUMBER)


def by_lowest(name: str, field: str) -> Keyset:
    """Return the order lowest number first."""
    return Keyset(name, (field,), is_descending=False, key=_BY_NUMBER)


def by_text(name: str, field: str) -> Keyset:
    """Return the order of a unique text."""
    return Keyset(name, (field,), is_descending=False, key=_BY_TEXT)
