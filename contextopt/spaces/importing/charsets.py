"""Reads text that is not UTF-8: UTF-16, Windows' own encoding, or the one that its owner names."""

import codecs
import io
from collections.abc import Buffer

from contextopt.errors import InvalidInput

CHUNK_BYTES = 2**16
WINDOWS = "cp1252"
UTF8_BOM = codecs.BOM_UTF8
WINDOWS_NOTICE = "the file is not UTF-8 and was read as Windows-1252; name its encoding if letters look wrong"


def check_encoding(name: str) -> str:
    """Return the usual name of a text encoding, "" for none.

    Raises:
        InvalidInput: Python knows no such encoding of text.
    """
    if not name:
        return ""
    try:
        found = codecs.lookup(name)
        "".encode(name)
    except (LookupError, UnicodeError, ValueError):
        raise InvalidInput.of("--encoding", f"there is no text encoding {name[:40]!r}") from None
    return found.name


def sniff_utf16(head: bytes) -> str:
    """Return the name of the UTF-16 that a text begins in, by its mark or its zeros, or ""."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    some = head[:1_000]
    if len(some) < 4:
        return ""
    low, high = some[::2].count(0), some[1::2].count(0)
    most = len(some) // 2
    # Even in other scripts, the breaks, blanks and commas have a zero byte.
    if high > most * 0.4 and not low:
        return "utf-16-le"
    return "utf-16-be" if low > most * 0.4 and not high else ""


class Recoded(io.RawIOBase):
    """A stream in another encoding, read as UTF-8 without a mark.

    Raises:
        UnicodeDecodeError: it is not in this encoding.
    """

    def __init__(self, stream: io.BufferedReader, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._pending = b""
        self._is_over = False
        self._is_first = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer)
        while not self._pending and not self._is_over:
            chunk = self._stream.read1(CHUNK_BYTES)
            self._is_over = not chunk
            text = self._decoder.decode(chunk, self._is_over)
            if text and self._is_first:
                text, self._is_first = text.removeprefix("\ufeff"), False
            self._pending = text.encode()
        part = self._pending[: len(view)]
        self._pending = self._pending[len(part) :]
        view[: len(part)] = part
        return len(part)


class LineDecoder:
    """Decodes the lines of a file in UTF-8, or in Windows' encoding if no line shows that it is UTF-8.

    A damaged line of an UTF-8 file gets lone surrogates, which the fields' checks refuse.
    """

    def __init__(self) -> None:
        self.is_windows = False
        self._is_utf8 = False

    def decode(self, line: bytes) -> str:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            return self._decode_other(line)
        self._is_utf8 = self._is_utf8 or not text.isascii()
        return text

    def _decode_other(self, line: bytes) -> str:
        if not self._is_utf8:
            try:
                text = line.decode(WINDOWS)
            except UnicodeDecodeError:
                pass
            else:
                self.is_windows = True
                return text
        return line.decode("utf-8", "surrogateescape")
