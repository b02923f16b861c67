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

from contextopt.spaces.importing.jsonl import read_jsonl
from contextopt.spaces.importing.lines import Lines, ReturnsAsFeeds, ends_in_return
from contextopt.spaces.importing.rows import Found, Rejection, UnusableSource
from contextopt.spaces.importing.tables import read_table

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
    stream = _peekable(file)
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


def _peekable(file: BinaryIO) -> io.BufferedReader:
    if isinstance(file, io.BufferedReader):
        return file
    return io.BufferedReader(cast(io.RawIOBase, file), 2**17)


def _peek(stream: BinaryIO) -> bytes:
    return cast(io.BufferedReader, stream).peek(4_096)[:4_096]


def quoted(name: str) -> str:
    """Return the beginning of a file's name in quotes."""
    return repr(name[:NAME_SHOWN])


def readable(name: str) -> str:
    """Return a file's name with a replacement character for each byte that is not UTF-8."""
    return os.fsencode(name).decode("utf-8", "replace")
