"""Warnings that accompany a result: a code to act on, a message with numbers, and possibly a remedy."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypedDict

EMPTY_WINDOW = "empty_window"
NOTHING_RELEVANT = "nothing_relevant"
BUDGET_TOO_SMALL = "budget_too_small"
NOT_EMBEDDED = "not_embedded"
UNKNOWN_PHASE = "unknown_phase"
OVER_BUDGET = "over_budget"
NOT_INDEXED = "not_indexed"
TASK_WAITS = "task_waits"
TASK_STOPPED = "task_stopped"
NOTE = "note"
"""Code of warnings that were stored as plain text, before warnings had codes."""

INSUFFICIENT = frozenset({EMPTY_WINDOW, NOTHING_RELEVANT, BUDGET_TOO_SMALL, NOT_EMBEDDED})
"""With one of these warnings the answer may be missing, so the context never counts as a saving."""


class RemedyJson(TypedDict):
    """A setting to change, its new value, and the label of the button that changes it."""

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
    """A setting to change, its new value, and the label of the button that changes it."""

    setting: str
    value: str | int
    label: str


@dataclass(frozen=True, slots=True)
class ContextWarning:
    """A notice for the reader of a result. `code` is stable; `message` is for people."""

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
        """Read a stored warning. Rows from before warnings had codes hold text, which becomes a note."""
        if isinstance(stored, str):
            return cls(NOTE, stored)
        remedy = stored["remedy"]
        return cls(stored["code"], stored["message"], Remedy(**remedy) if remedy else None)


def warnings_json(warnings: Iterable[ContextWarning]) -> list[WarningJson]:
    """Return the warnings as JSON objects, in their order."""
    return [warning.to_json() for warning in warnings]


def read_warnings(stored: Iterable[str | Mapping[str, Any]]) -> list[ContextWarning]:
    """Read the warnings of a stored row, of any version."""
    return [ContextWarning.from_json(warning) for warning in stored]
