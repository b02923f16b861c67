"""Response types: TypedDicts whose fields can come from a value or a table, and values shown as them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict, cast, get_type_hints


def pick(item: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(item, name) for name in names}


def show(kind: type, item: object, **computed: object) -> dict[str, Any]:
    """Return an item as a response type: its attributes with the names of the fields, or the given values."""
    names = kind.__annotations__
    return {name: computed[name] if name in computed else getattr(item, name) for name in names}


def fields_of[Row: type](value: type, *, without: Iterable[str] = ()) -> Callable[[Row], Row]:
    """Give a TypedDict the fields of a value, before its own, which replace those of the same name."""
    hints = get_type_hints(value, include_extras=True)
    fields = {name: hint for name, hint in hints.items() if name not in without}
    return lambda row: _remake(row, {**fields, **row.__annotations__})


def add_fields[Row: type](fields: Mapping[str, Any]) -> Callable[[Row], Row]:
    """Add fields that are declared in a table to a TypedDict, after its own."""
    return lambda row: _remake(row, {**row.__annotations__, **fields})


def _remake[Row: type](row: Row, fields: dict[str, Any]) -> Row:
    made: Any = TypedDict(row.__name__, fields)  # type: ignore[misc]
    made.__doc__, made.__module__ = row.__doc__, row.__module__
    return cast("Row", made)
