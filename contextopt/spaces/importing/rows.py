"""The output of readers: a row as found, or the reason it could not be read."""

from dataclasses import dataclass
from typing import TypedDict

from contextopt.errors import ContextoptError


class UnusableSource(ContextoptError):
    """The whole file, folder or repository cannot be read."""


class RejectionJson(TypedDict, total=False):
    file: str
    line: int
    field: str
    error: str


@dataclass(frozen=True, slots=True)
class Rejection:
    """A row that was left out: its first line, the first faulty field, and everything that is wrong.

    `field` is "row" if the whole line cannot be read.
    """

    line: int
    field: str
    error: str
    file: str = ""

    def to_json(self) -> RejectionJson:
        """Return the rejection as JSON; `file` is included if more than one file was read."""
        answer: RejectionJson = {"line": self.line, "field": self.field, "error": self.error}
        return {"file": self.file, **answer} if self.file else answer

    def __str__(self) -> str:
        return f"{self.file + ': ' if self.file else ''}line {self.line}: {self.field}: {self.error}"


@dataclass(frozen=True, slots=True)
class RawRow:
    """A row before it is checked. `size` is its size in the source, in bytes or characters."""

    line: int
    fields: dict[str, object]
    size: int
    file: str = ""


type Found = RawRow | Rejection
