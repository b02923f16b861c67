"""The output of readers: a row as found, or the reason it could not be read."""

import io
import re
from collections.abc import Buffer, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple, TypedDict
from zoneinfo import ZoneInfo

from contextopt.errors import ContextoptError
from contextopt.people.models import DateOrder, Team


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
    """A row before it is checked. `size` is its size in the source, in bytes or characters.

    Values of `spare` fields that cannot be used move to the metadata, so that they don't cost the row.
    """

    line: int
    fields: dict[str, object]
    size: int
    file: str = ""
    spare: frozenset[str] = frozenset()


class Notice(NamedTuple):
    """Something that was left out, or read in a way to know of, so many times from this line on."""

    line: int
    message: str
    file: str = ""
    times: int = 1

    def __str__(self) -> str:
        where = f"{self.file + ', ' if self.file else ''}line {self.line}"
        times = f" ({self.times:,} times, first at {where})" if self.times > 1 else f" ({where})"
        return f"{self.message}{times if self.line else ''}"


type Found = RawRow | Rejection | Notice

LEFT_OUT = "-"
"""Mapped to this, a column is not imported."""


_UTC = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How files are read: the team's zone and order of dates, and what the person who imports says.

    `date_order` is the team's for dates such as 03/04/2026; `month_first` is what the person says about them.
    `columns` maps the names of columns to fields of a record, to `metadata`, or to `LEFT_OUT`. A folder that
    `is_unpacked` comes from a stranger's archive, so no program such as git may look into it.
    """

    zone: ZoneInfo = _UTC
    date_order: str = DateOrder.ZONE
    month_first: bool | None = None
    encoding: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    is_unpacked: bool = False

    @classmethod
    def of(cls, team: Team) -> "ReadOptions":
        """Return how files of a team are read unless a person says more."""
        return cls(zone=ZoneInfo(team.time_zone), date_order=team.date_order)


DEFAULT_OPTIONS = ReadOptions()


LINE_MAX_BYTES = 16 * 2**20
LINE_END = re.compile(rb"\r?\n|\r")
LONE_RETURN = re.compile(rb"\r(?!\n)")


class Lines:
    """Iterate over the lines. `number` is the last line's number, counted from 1.

    A line over the limit comes out blank, and `overlong` holds its number.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.number = 0
        self.overlong: int | None = None

    def __iter__(self) -> Iterator[bytes]:
        while line := self.stream.readline(LINE_MAX_BYTES + 1):
            self.number += 1
            if len(line) > LINE_MAX_BYTES:
                part = line
                while part and not part.endswith(b"\n"):
                    part = self.stream.readline(LINE_MAX_BYTES)
                self.overlong = self.number
                line = b"\n"
            yield line


class ReturnsAsFeeds(io.RawIOBase):
    """A stream that turns lone carriage returns into line feeds."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self.stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer)
        chunk = self.stream.read1(len(view))
        # Only the next byte shows whether a final return stands alone.
        after = self.stream.peek(1)[:1] if chunk.endswith(b"\r") else b""
        view[: len(chunk)] = LONE_RETURN.sub(b"\n", chunk + after)[: len(chunk)]
        return len(chunk)


def ends_in_return(head: bytes) -> bool:
    """Tell whether the first line ends in a lone carriage return, as on old Macs."""
    found = LINE_END.search(head)
    return found is not None and found[0] == b"\r"


def decode(line: bytes) -> str:
    """Decode UTF-8. Invalid bytes become lone surrogates, which the fields' checks refuse."""
    return line.decode("utf-8", "surrogateescape")
