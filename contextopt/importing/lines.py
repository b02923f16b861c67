"""Lines of a byte stream, split on line feeds alone, none longer than a bound."""

from collections.abc import Iterator
from typing import BinaryIO

LINE_MAX_BYTES = 16 * 2**20


class Lines:
    """Iterate over the lines; `number` is that of the last one given, from 1.

    A line past the bound comes as an empty one, and its number is kept in `overlong`.
    """

    def __init__(self, stream: BinaryIO, *, max_bytes: int = LINE_MAX_BYTES) -> None:
        self.stream = stream
        self.max_bytes = max_bytes
        self.number = 0
        self.overlong: int | None = None

    def __iter__(self) -> Iterator[bytes]:
        while line := self.stream.readline(self.max_bytes + 1):
            self.number += 1
            if len(line) > self.max_bytes:
                self._skip_rest(line)
                self.overlong = self.number
                line = b"\n"
            yield line

    def _skip_rest(self, part: bytes) -> None:
        while part and not part.endswith(b"\n"):
            part = self.stream.readline(self.max_bytes)


def decode(line: bytes) -> str:
    """Decode UTF-8. A byte that is none becomes a lone surrogate, which the check of the field refuses."""
    return line.decode("utf-8", "surrogateescape")
