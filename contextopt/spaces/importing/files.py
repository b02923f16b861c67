"""Opens files of rows, detects their format, and reads them line by line in bounded memory."""

import gzip
import io
import json
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

from contextopt.spaces.importing.csvfiles import read_table
from contextopt.spaces.importing.rows import (
    LINE_MAX_BYTES,
    Found,
    Lines,
    RawRow,
    Rejection,
    ReturnsAsFeeds,
    UnusableSource,
    decode,
    ends_in_return,
)
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
            first = head[0].found
            name = "array" if opened == "[" else "object"
            yield Rejection(
                first.line,
                "row",
                f"starts a JSON {name} that spans several lines. Write one JSON object per line. "
                "The rest of the file was not read",
                first.file,
            )
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


STDIN = "-"
NAME_SHOWN = 80
"""An error shows this many characters of a file's name."""
GZIP_MAGIC = b"\x1f\x8b"
UTF8_BOM = b"\xef\xbb\xbf"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
FORMATS: dict[str, "Format"] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv",
}  # fmt: skip

type Format = Literal["jsonl", "csv"]


def check_input(name: str, *, folder_advice: str = "") -> None:
    """Refuse an unusable file before another is imported. Don't open it, since a pipe opens only once.

    `folder_advice` is what to do with a folder instead.

    Raises:
        UnusableSource: it is missing, is a folder, cannot be read, or is a closed standard input.
    """
    if name == STDIN:
        if sys.stdin is None:
            raise UnusableSource("standard input is closed")
        return
    if "\0" in name or not Path(name).exists():
        raise UnusableSource(f"{quoted(name)} does not exist")
    if Path(name).is_dir():
        raise UnusableSource(f"{name} is a folder{folder_advice and f'; {folder_advice}'}")
    if not os.access(name, os.R_OK):
        raise UnusableSource(f"{name} cannot be read: permission denied")


@contextmanager
def open_input(name: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input for `-`. Gzip is decompressed.

    Raises:
        UnusableSource: it is damaged or in UTF-16.
    """
    if name == STDIN:
        yield _unpacked(sys.stdin.buffer, name)
        return
    with Path(name).open("rb") as file:
        yield _unpacked(file, name)


def read_file(
    stream: BinaryIO, name: str, *, file: str = "", format: Format | None = None
) -> Iterator[Found]:
    """Yield the rows of a JSONL or CSV file; `file` is the name used in reports.

    Unless given, the format follows the name's extension, or else the first character.
    """
    chosen = format or detect_format(name, _peek(stream))
    if chosen == "csv" and ends_in_return(_peek(stream)):
        stream = io.BufferedReader(ReturnsAsFeeds(cast(io.BufferedReader, stream)), 2**17)
    lines = Lines(stream)
    reader = read_jsonl if chosen == "jsonl" else read_table
    try:
        yield from reader(lines, file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        yield Rejection(
            lines.number + 1, "row", f"the compressed data is damaged from this point: {error}", file
        )


def detect_format(name: str, head: bytes) -> Format:
    for suffix in reversed(Path(name).suffixes):
        if suffix.lower() != ".gz":
            if suffix.lower() in FORMATS:
                return FORMATS[suffix.lower()]
            break
    return "jsonl" if head.lstrip()[:1] in (b"{", b"[") else "csv"


def _unpacked(file: BinaryIO, name: str) -> BinaryIO:
    stream = (
        file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file), 2**17)
    )
    if _peek(stream).startswith(GZIP_MAGIC):
        stream = io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=stream)), 2**17)
    try:
        head = _peek(stream)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UnusableSource(f"{name} is damaged: {error}") from error
    if head.startswith(UTF16_BOMS):
        raise UnusableSource(f"{name} is UTF-16; save it as UTF-8")
    if head.startswith(UTF8_BOM):
        stream.read(len(UTF8_BOM))
    return stream


def _peek(stream: BinaryIO) -> bytes:
    return cast(io.BufferedReader, stream).peek(4_096)[:4_096]


def quoted(name: str) -> str:
    """Return the beginning of a file's name in quotes."""
    return repr(name[:NAME_SHOWN])


def readable(name: str) -> str:
    """Return a file's name with a replacement character for each byte that is not UTF-8."""
    return os.fsencode(name).decode("utf-8", "replace")
