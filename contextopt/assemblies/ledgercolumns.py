"""Stores a ledger as one list per field. In a list of entries, field names would take most of the space."""

from collections.abc import Iterable
from typing import Any, TypedDict


class EntryJson(TypedDict):
    """One candidate in the ledger: its score from 0 to 10, the score's parts, and whether it was kept and
    why.
    """

    id: int
    source: str
    external_id: str
    score: float
    parts: dict[str, float]
    tokens: int
    pinned: bool
    kept: bool
    reason: str
    duplicate_of: int | None


FIELDS = ("id", "source", "external_id", "score", "tokens", "pinned", "kept", "reason")

type Columns = dict[str, Any]


def pack_entries(entries: Iterable[EntryJson]) -> Columns:
    """Turn entries into columns. All entries of a ledger have the same score parts."""
    rows = list(entries)
    columns: Columns = {name: [row[name] for row in rows] for name in FIELDS}  # type: ignore[literal-required]
    parts = rows[0]["parts"] if rows else {}
    # Few ledgers have duplicates, so most omit the column.
    if any(row["duplicate_of"] for row in rows):
        columns["duplicate_of"] = [row["duplicate_of"] for row in rows]
    return {**columns, "parts": {name: [row["parts"][name] for row in rows] for name in parts}}


def unpack_entries(columns: Columns) -> list[EntryJson]:
    """Turn columns back into entries, in their order."""
    parts: dict[str, list[float]] = columns["parts"]
    originals = columns.get("duplicate_of", {})
    return [
        {
            **dict(zip(FIELDS, values, strict=True)),  # type: ignore[typeddict-item]
            "duplicate_of": originals[index] if originals else None,
            "parts": {name: column[index] for name, column in parts.items()},
        }
        for index, values in enumerate(zip(*(columns[name] for name in FIELDS), strict=True))
    ]
