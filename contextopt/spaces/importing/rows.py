"""What readers hand on: a row as it was found, or why it could not be read."""

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
    """A row that was left out: the line it starts at, the first field at fault, and all that is wrong.

    `field` is "row" when the line as a whole cannot be read.
    """

    line: int
    field: str
    error: str
    file: str = ""

    def to_json(self) -> RejectionJson:
        """Return the row's fault; `file` is there when more than one file was read."""
        answer: RejectionJson = {"line": self.line, "field": self.field, "error": self.error}
        return {"file": self.file, **answer} if self.file else answer

    def __str__(self) -> str:
        return f"{self.file + ': ' if self.file else ''}line {self.line}: {self.field}: {self.error}"


@dataclass(frozen=True, slots=True)
class RawRow:
    """A row before it is checked. `size` is what it took in its source, in bytes or characters."""

    line: int
    fields: dict[str, object]
    size: int
    file: str = ""


type Found = RawRow | Rejection
