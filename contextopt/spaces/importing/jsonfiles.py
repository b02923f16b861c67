"""Reads JSON: one value per line, an array, or one document, in bounded memory."""

import codecs
import io
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

from contextopt.spaces.importing.rows import LINE_MAX_BYTES, Found, Lines, RawRow, Rejection, decode
from contextopt.strictjson import read_json, read_json_at, skip_json_at

CHUNK_BYTES = 2**18
# One value of an array, such as a conversation, is read whole.
VALUE_MAX_CHARS = 64 * 2**20
# A fault this close to the end of what was read may be only a value that goes on.
NEAR_END = 64
_ARRAY = re.compile(rb"\s*\[\s*[{\]]")
_BLANK = re.compile(r"\s*")


class Value(NamedTuple):
    """A value with its first line, from 1, and its size in the file."""

    line: int
    value: object
    size: int


type FoundValue = Value | Rejection


def begins_array(head: bytes) -> bool:
    """Tell whether a file is an array of objects, rather than one value per line."""
    return _ARRAY.match(head) is not None


def read_rows(values: Iterable[FoundValue], file: str) -> Iterator[Found]:
    """Yield each object as a row."""
    for found in values:
        if isinstance(found, Rejection):
            yield found
        elif isinstance(found.value, dict):
            yield RawRow(found.line, found.value, found.size, file)
        else:
            yield Rejection(found.line, "row", "must be a JSON object", file)


def read_lines(lines: Lines, file: str) -> Iterator[FoundValue]:
    """Yield the value of each line that is not blank. A document that spans several lines is read whole."""
    rows = _read_lines(lines, file)
    head = list(islice(rows, 1))
    if head and (opened := _opens(head[0].line)):
        start = lines.number
        head += islice(rows, 1)
        if _goes_on(opened, head):
            # Blank lines count, too.
            breaks = b"\n" * (lines.number - start - len(head) + 1)
            before = b"".join([head[0].line, breaks, *(row.line for row in head[1:])])
            yield from JsonValues(chain([before], lines), file, line=start).read()
            return
    for row in chain(head, rows):
        yield row.found


def read_array(stream: io.BufferedReader, file: str) -> Iterator[FoundValue]:
    """Yield the elements of an array."""
    return JsonValues(iter(lambda: stream.read1(CHUNK_BYTES), b""), file).read()


class _ReadLine(NamedTuple):
    """A line that is not blank, and what was read from it."""

    line: bytes
    found: FoundValue


def _read_lines(lines: Lines, file: str) -> Iterator[_ReadLine]:
    for line in lines:
        if lines.overlong == lines.number:
            error = f"is longer than {LINE_MAX_BYTES:,} bytes"
            yield _ReadLine(line, Rejection(lines.number, "row", error, file))
        elif not line.isspace():
            yield _ReadLine(line, _read_line(line, lines.number, file))


def _opens(line: bytes) -> str:
    """Return the bracket of an array or object that the line opens but does not close, or ""."""
    text = decode(line).strip()
    if not text.startswith(("[", "{")):
        return ""
    try:
        read_json(text)
    except json.JSONDecodeError as error:
        return text[0] if error.pos >= len(text) else ""
    except (ValueError, RecursionError):
        return ""
    return ""


def _goes_on(opened: str, head: list[_ReadLine]) -> bool:
    """Tell whether the second line continues what the first one opened, and is not a row of its own.

    If only the first row is broken, the file is read on.
    """
    first, *rest = head
    if opened == "[":
        return first.line.strip() == b"[" or any(isinstance(row.found, Rejection) for row in rest)
    return any(row.line.lstrip().startswith((b'"', b"}")) for row in rest)


def _read_line(line: bytes, number: int, file: str) -> FoundValue:
    try:
        # Without its line break, a line that ends too early is faulty at its end.
        value = read_json(decode(line.rstrip(b"\r\n")))
    except RecursionError:
        return Rejection(number, "row", "is nested too deep", file)
    except json.JSONDecodeError as error:
        # The error's own line number is always 1.
        return Rejection(number, "row", f"is not JSON: {error.msg} at character {error.colno}", file)
    except ValueError as error:
        return Rejection(number, "row", str(error), file)
    return Value(number, value, len(line))


class _Stop(Exception):
    """Nothing after this point can be read. The message says why."""


class JsonValues:
    """The elements of an array, or the values that follow one another, from chunks of bytes."""

    def __init__(self, chunks: Iterator[bytes], file: str, line: int = 1) -> None:
        self._chunks = chunks
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._file = file
        self._line = line
        self._text = ""
        self._at = 0
        self._is_over = False

    def read(self) -> Iterator[FoundValue]:
        """Yield the values. A value that cannot be read is rejected, with the rest of the file if need be."""
        try:
            if self._next_sign() == "[":
                self._move(self._at + 1)
                yield from self._elements()
            if self._next_sign():
                yield from self._values()
        except _Stop as stop:
            yield Rejection(self._line, "row", f"{stop}. The rest of the file was not read", self._file)

    def _elements(self) -> Iterator[FoundValue]:
        while (sign := self._next_sign()) != "]":
            if not sign:
                raise _Stop("the array is never closed")
            yield self._value()
            sign = self._next_sign()
            if sign == ",":
                self._move(self._at + 1)
            elif sign != "]":
                raise _Stop("is not JSON: a comma or the end of the array is missing")
        self._move(self._at + 1)

    def _values(self) -> Iterator[FoundValue]:
        while self._next_sign():
            yield self._value()

    def _next_sign(self) -> str:
        """Move past blanks and return the next character, "" at the end."""
        while True:
            found = _BLANK.match(self._text, self._at)
            assert found is not None
            self._move(found.end())
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._fill(1):
                return ""

    def _value(self) -> FoundValue:
        while True:
            try:
                value, end = read_json_at(self._text, self._at)
            except json.JSONDecodeError as error:
                self._need_more(error)
            except RecursionError:
                raise _Stop("a value is nested too deep") from None
            except ValueError as error:
                if (refused_end := self._end_of_value()) is not None:
                    refused = Rejection(self._line, "row", str(error), self._file)
                    self._move(refused_end)
                    return refused
            else:
                # More digits may follow.
                if end < len(self._text) or not self._fill(1):
                    line, size = self._line, end - self._at
                    self._move(end)
                    return Value(line, value, size)

    def _end_of_value(self) -> int | None:
        """Return the end of a value that breaks a rule but is JSON, None if more of it must be read first."""
        try:
            return skip_json_at(self._text, self._at)
        except json.JSONDecodeError as error:
            self._need_more(error)
            return None

    def _need_more(self, error: json.JSONDecodeError) -> None:
        """Read on, at least as much again, so that a long value is not parsed again for each chunk."""
        length = len(self._text) - self._at
        is_cut = error.pos >= len(self._text) - NEAR_END or error.msg.startswith("Unterminated string")
        if not is_cut or length > VALUE_MAX_CHARS or not self._fill(max(length, 1)):
            raise _Stop(f"is not JSON: {error.msg}" if length <= VALUE_MAX_CHARS else "a value is too long")

    def _fill(self, least: int) -> bool:
        """Read at least this many characters more; return whether there were any."""
        parts: list[str] = []
        while not self._is_over and sum(map(len, parts)) < least:
            chunk = next(self._chunks, b"")
            self._is_over = not chunk
            parts.append(self._decoder.decode(chunk, self._is_over))
        added = "".join(parts)
        self._text = self._text[self._at :] + added
        self._at = 0
        return bool(added)

    def _move(self, to: int) -> None:
        self._line += self._text.count("\n", self._at, to)
        self._at = to
