"""Compares two states of a record, by words and lines. Pure."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from contextopt.spaces.models import RecordState

SHOWN_FIELDS = ("title", "type", "date", "tags", "pinned", "thread", "position", "metadata", "deleted_at")
# Comparing takes quadratic time, so only the beginning of longer notes is compared.
NOTES_COMPARED = 4_000
LINES_SHOWN = 60

type Mark = Literal["same", "added", "removed"]


@dataclass(frozen=True, slots=True)
class FieldChange:
    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class DiffLine:
    mark: Mark
    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The fields that differ, and the notes line by line."""

    fields: tuple[FieldChange, ...]
    notes: tuple[DiffLine, ...]
    is_cut: bool = False


def compare(before: RecordState, after: RecordState) -> Comparison:
    """Compare two states by their own fields; view counts are ignored."""
    fields = tuple(
        FieldChange(name.replace("_", " "), getattr(before, name), getattr(after, name))
        for name in SHOWN_FIELDS
        if getattr(before, name) != getattr(after, name)
    )
    if before.notes == after.notes:
        return Comparison(fields, ())
    lines = _diff(before.notes[:NOTES_COMPARED].split("\n"), after.notes[:NOTES_COMPARED].split("\n"))
    is_cut = len(lines) > LINES_SHOWN or max(len(before.notes), len(after.notes)) > NOTES_COMPARED
    return Comparison(fields, tuple(lines[:LINES_SHOWN]), is_cut)


_MARKS: dict[str, Mark] = {" ": "same", "+": "added", "-": "removed"}


def _diff(before: Sequence[str], after: Sequence[str]) -> list[DiffLine]:
    lines = list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:]
    return [DiffLine(_MARKS[line[0]], line[1:]) for line in lines if line[0] in _MARKS]
