"""Warnings that travel with an answer: a code to act on, a message with numbers, perhaps a remedy."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypedDict

EMPTY_WINDOW = "empty_window"
NOTHING_RELEVANT = "nothing_relevant"
BUDGET_TOO_SMALL = "budget_too_small"
NOT_EMBEDDED = "not_embedded"
UNKNOWN_PHASE = "unknown_phase"
OVER_BUDGET = "over_budget"
NOTE = "note"
"""The code of warnings that were stored as plain text, before warnings had codes."""

INSUFFICIENT = frozenset({EMPTY_WINDOW, NOTHING_RELEVANT, BUDGET_TOO_SMALL, NOT_EMBEDDED})
"""A context with one of these may lack the answer, so it never counts as a saving."""


class RemedyJson(TypedDict):
    """A setting to change, the value to change it to, and the words of the button that does so."""

    setting: str
    value: str | int
    label: str


class WarningJson(TypedDict):
    """A warning in the API, in commands and in stored ledgers."""

    code: str
    message: str
    remedy: RemedyJson | None


@dataclass(frozen=True, slots=True)
class Remedy:
    """A setting to change, the value to change it to, and the words of the button that does so."""

    setting: str
    value: str | int
    label: str


@dataclass(frozen=True, slots=True)
class ContextWarning:
    """Something that the reader of an answer should know. `code` is stable, `message` is for people."""

    code: str
    message: str
    remedy: Remedy | None = None

    def __str__(self) -> str:
        return self.message

    def to_json(self) -> WarningJson:
        remedy = self.remedy
        shown: RemedyJson | None = (
            {"setting": remedy.setting, "value": remedy.value, "label": remedy.label} if remedy else None
        )
        return {"code": self.code, "message": self.message, "remedy": shown}

    @classmethod
    def from_json(cls, stored: str | Mapping[str, Any]) -> Self:
        """Read a stored warning. Rows from before warnings had codes hold text: a note."""
        if isinstance(stored, str):
            return cls(NOTE, stored)
        remedy = stored["remedy"]
        return cls(stored["code"], stored["message"], Remedy(**remedy) if remedy else None)


def warnings_json(warnings: Iterable[ContextWarning]) -> list[WarningJson]:
    """Return the warnings as JSON objects, in their order."""
    return [warning.to_json() for warning in warnings]


def read_warnings(stored: Iterable[str | Mapping[str, Any]]) -> list[ContextWarning]:
    """Read the warnings of a stored row, whichever version wrote it."""
    return [ContextWarning.from_json(warning) for warning in stored]
