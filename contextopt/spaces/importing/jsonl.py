"""Reads files with one JSON object per line."""

import json
from collections.abc import Iterator
from itertools import chain, islice
from typing import NamedTuple

from contextopt.spaces.importing.lines import LINE_MAX_BYTES, Lines, decode
from contextopt.spaces.importing.rows import Found, RawRow, Rejection
from contextopt.strictjson import read_json


def read_jsonl(lines: Lines, file: str) -> Iterator[Found]:
    """Yield each line's object and skip blank lines.

    If one array or object spans several lines, yield one rejection and stop reading.
    """
    rows = _read_lines(lines, file)
    head = list(islice(rows, 1))
    if head and (opened := _opens(head[0].line)):
        head += islice(rows, 1)
        if _goes_on(opened, head):
            yield _spread(opened, head[0].found)
            return
    for row in chain(head, rows):
        yield row.found


class ReadLine(NamedTuple):
    """A line that is not blank, and the row or rejection read from it."""

    line: bytes
    found: Found


def _read_lines(lines: Lines, file: str) -> Iterator[ReadLine]:
    for line in lines:
        if lines.overlong == lines.number:
            error = f"is longer than {LINE_MAX_BYTES:,} bytes"
            yield ReadLine(line, Rejection(lines.number, "row", error, file))
        elif not line.isspace():
            yield ReadLine(line, _read_line(line, lines.number, file))


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


def _goes_on(opened: str, head: list[ReadLine]) -> bool:
    """Tell whether the second line continues what the first one opened, and is not a row of its own.

    If only the first row is broken, the file is read on.
    """
    first, *rest = head
    if opened == "[":
        return first.line.strip() == b"[" or any(isinstance(row.found, Rejection) for row in rest)
    return any(row.line.lstrip().startswith((b'"', b"}")) for row in rest)


def _spread(opened: str, first: Found) -> Rejection:
    name = "array" if opened == "[" else "object"
    return Rejection(
        first.line,
        "row",
        f"starts a JSON {name} that spans several lines. Write one JSON object per line. "
        "The rest of the file was not read",
        first.file,
    )


def _read_line(line: bytes, number: int, file: str) -> Found:
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
    if not isinstance(value, dict):
        return Rejection(number, "row", "must be a JSON object", file)
    return RawRow(number, value, len(line), file)
