"""Opens files of rows, detects their format, and reads them line by line in bounded memory."""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, cast

from contextopt.spaces.importing.charsets import UTF8_BOM, Recoded, sniff_utf16
from contextopt.spaces.importing.csvfiles import read_table
from contextopt.spaces.importing.jsonfiles import (
    FoundValue,
    begins_array,
    read_array,
    read_lines,
    read_rows,
)
from contextopt.spaces.importing.rows import (
    DEFAULT_OPTIONS,
    Found,
    Lines,
    Notice,
    RawRow,
    ReadOptions,
    Rejection,
    ReturnsAsFeeds,
    UnusableSource,
    ends_in_return,
)

STDIN = "-"
NAME_SHOWN = 80
"""An error shows this many characters of a file's name."""
GZIP_MAGIC = b"\x1f\x8b"
BUFFER_BYTES = 2**17
PEEKED_BYTES = 4_096
FORMATS: dict[str, "Format"] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv",
}  # fmt: skip

type Format = Literal["jsonl", "csv"]


def check_input(name: str, *, is_folder_allowed: bool = False) -> None:
    """Refuse an unusable file before another is imported. Don't open it, since a pipe opens only once.

    Raises:
        UnusableSource: it is missing, is a folder, cannot be read, or is a closed standard input.
    """
    if name == STDIN:
        if sys.stdin is None:
            raise UnusableSource("standard input is closed")
        return
    if "\0" in name or not Path(name).exists():
        raise UnusableSource(f"{quoted(name)} does not exist")
    if Path(name).is_dir() and not is_folder_allowed:
        raise UnusableSource(f"{name} is a folder")
    if not os.access(name, os.R_OK):
        raise UnusableSource(f"{name} cannot be read: permission denied")


@contextmanager
def open_input(name: str, encoding: str = "") -> Iterator[BinaryIO]:
    """Open a file, or standard input for `-`, as UTF-8. Gzip is decompressed.

    UTF-16 is recognised. Any other encoding must be named.

    Raises:
        UnusableSource: it is damaged, or not in the encoding that is named.
    """
    if name == STDIN:
        yield _unpacked(sys.stdin.buffer, name, encoding)
        return
    with Path(name).open("rb") as file:
        yield _unpacked(file, name, encoding)


def read_file(
    stream: BinaryIO, name: str, *, file: str = "", format: Format | None = None
) -> Iterator[RawRow | Rejection]:
    """Yield the rows of a JSON, JSONL or CSV file; `file` is the name used in reports.

    Unless given, the format follows the name's extension, or else the first character.
    """
    chosen = format or detect_format(name, peek(stream))
    found = (
        read_rows(read_values(stream, file), file)
        if chosen == "jsonl"
        else read_columns(stream, file, DEFAULT_OPTIONS)
    )
    return (row for row in found if not isinstance(row, Notice))


def read_columns(stream: BinaryIO, file: str, options: ReadOptions) -> Iterator[Found]:
    """Yield the rows of a CSV file."""
    if ends_in_return(peek(stream)):
        stream = io.BufferedReader(ReturnsAsFeeds(cast(io.BufferedReader, stream)), BUFFER_BYTES)
    lines = Lines(stream)
    return _refuse_damage(read_table(lines, file, options.columns), lines, file)


def read_values(stream: BinaryIO, file: str) -> Iterator[FoundValue]:
    """Yield the values of a JSON or JSONL file."""
    lines = Lines(stream)
    is_array = begins_array(peek(stream))
    values = read_array(cast(io.BufferedReader, stream), file) if is_array else read_lines(lines, file)
    return _refuse_damage(values, lines, file)


def _refuse_damage[Item](items: Iterator[Item], lines: Lines, file: str) -> Iterator[Item | Rejection]:
    """Yield the items, and a rejection in place of those that cannot be unpacked or decoded."""
    try:
        yield from items
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        fault = f"the compressed data is damaged from this point: {error}"
        yield Rejection(lines.number + 1, "row", fault, file)
    except UnicodeDecodeError as error:
        yield Rejection(lines.number + 1, "row", f"is not {error.encoding} from this point", file)


def detect_format(name: str, head: bytes) -> Format:
    for suffix in reversed(Path(name).suffixes):
        if suffix.lower() != ".gz":
            if suffix.lower() in FORMATS:
                return FORMATS[suffix.lower()]
            break
    return "jsonl" if head.lstrip()[:1] in (b"{", b"[") else "csv"


def _unpacked(file: BinaryIO, name: str, encoding: str) -> BinaryIO:
    stream = (
        file
        if isinstance(file, io.BufferedReader)
        else io.BufferedReader(cast(io.RawIOBase, file), BUFFER_BYTES)
    )
    if peek(stream).startswith(GZIP_MAGIC):
        stream = io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=stream)), BUFFER_BYTES)
    try:
        head = peek(stream)
        if other := encoding if encoding not in {"", "utf-8"} else sniff_utf16(head):
            stream = io.BufferedReader(Recoded(stream, other), BUFFER_BYTES)
            head = peek(stream)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UnusableSource(f"{name} is damaged: {error}") from error
    except UnicodeDecodeError as error:
        raise UnusableSource(f"{name} is not {error.encoding}") from error
    if head.startswith(UTF8_BOM):
        stream.read(len(UTF8_BOM))
    return stream


def peek(stream: BinaryIO) -> bytes:
    """Return the beginning of what is still to be read."""
    return cast(io.BufferedReader, stream).peek(PEEKED_BYTES)[:PEEKED_BYTES]


def quoted(name: str) -> str:
    """Return the beginning of a file's name in quotes."""
    return repr(name[:NAME_SHOWN])


def readable(name: str) -> str:
    """Return a file's name with a replacement character for each byte that is not UTF-8."""
    return os.fsencode(name).decode("utf-8", "replace")
