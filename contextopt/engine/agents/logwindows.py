"""The lines around a failure in a log: its heading, its details and the place in the caller's own code."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache

from contextopt.engine.agents.logmarkers import Marker, is_quiet

_BEFORE = {Marker.ERROR: (0.5, 0.3, 0.2), Marker.TROUBLE: (0.35, 0.2)}
_AFTER = {
    Marker.ERROR: (0.75, 0.65, 0.55, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15),
    Marker.SUMMARY: (0.55, 0.5, 0.45, 0.4, 0.35),
    Marker.TROUBLE: (0.45, 0.4, 0.35, 0.25),
}
_ANNOUNCED = (0.85, 0.8, 0.75, 0.7, 0.65, 0.55, 0.45, 0.35, 0.3, 0.25, 0.2, 0.2, 0.15, 0.15)
"""Shares of a marker's value for the lines before and after it, nearest first, without blank lines."""
_UNRELATED = 0.5
"""Each line that doesn't continue the report lowers the shares of the lines after it."""
_SAME_SOURCE = 0.45
"""Share of an earlier line that begins with the same word, such as the number of a build step."""
_COMPARED = 0.8
"""Share of the lines that name the expected and the actual value."""
_ABOVE_LINES = 4
_POINTED = 0.9
"""Share of a message whose next line points to a place in a file."""
_LIBRARY_FRAME = 0.4
_OWN_FRAME = 0.6
_HEADINGS = (0.55, 0.4)
_HEADING_LINES = 25
_LINE_CHARS = 500
_FRAME_LINES = 40
_MESSAGE_LINES = 8
"""Lines between a failure and its stack: a message of several lines, or code."""

_POINTS = re.compile(r"\s*-->\s")
_ANNOUNCES = re.compile(r":\s*$|^\W*FAILURE\b|\bException in thread\b")
_CONTINUES = re.compile(
    r"""^\s*(?:at\s | File\ " | [|>^~+│╵╷=-] | E\s | \#\s | \.\.\. | note: | help: | Caused\ by
          | \d+\s+\| | symbol: | location: | where: | because\b )""",
    re.VERBOSE | re.IGNORECASE,
)
_COMPARES = re.compile(
    r"^[\s>|E+#-]*(?:expect(?:ed|ing)|received|actual|got|want(?:ed)?|left|right|which is|but was|to be)\b"
    r"[^:\n]{0,40}:",
    re.IGNORECASE,
)
_FRAME = re.compile(
    r"""^\s+(?:at\s | ❯\s | \d+:\s | File\ " | \S+\.\w+\ \d+:\d+\b | \S+:\d+(?:\s\+0x|:|\)?\s*$))
      | ^goroutine\s | ^created\ by\s | ^\S+:\d+:in\s
      | ^[\w./*-]++\(.*\)\s*$""",
    re.VERBOSE,
)
_PLACE = re.compile(r":\d+|\bline \d+")
_LIBRARY = re.compile(
    r"""node_modules|(?:site|dist)-packages|/usr/(?:local/)?lib/|/rustc/|/lib/python\d|\bnode:|<anonymous>:|internal/
      | \b(?:java\.base|jdk\.|sun\.|kotlin\.|scala\.)
      | \borg\.(?:junit|opentest4j|testng|assertj|hamcrest|mockito|gradle|apache\.maven|scalatest)\b
      | \b(?:System|Microsoft|Xunit|NUnit)\.""",
    re.VERBOSE,
)


class _Role(Enum):
    """The role of a line near a failure in its report."""

    QUIET = 0
    LIBRARY = 1
    FRAME = 2
    COMPARED = 3
    DETAIL = 4
    OTHER = 5


@lru_cache(maxsize=4_096)
def _role(line: str) -> _Role:
    if is_quiet(line):
        return _Role.QUIET
    if _FRAME.search(line):
        return _Role.LIBRARY if _LIBRARY.search(line) else _Role.FRAME
    if _COMPARES.search(line):
        return _Role.COMPARED
    return _Role.DETAIL if _CONTINUES.search(line) else _Role.OTHER


def find_surroundings(
    lines: Sequence[str], markers: Mapping[int, Marker], index: int, within: range
) -> Iterator[tuple[int, float]]:
    """Yield the lines around a marked line, each with its share of the marker's value."""
    marker = markers[index]
    shares = _BEFORE.get(marker, ())
    start = max(within.start, index - 2 * len(shares))
    first_word = _first_word(lines[index])
    for near, share in zip(_written(lines, range(index - 1, start - 1, -1)), shares, strict=False):
        yield near, max(share, _SAME_SOURCE if _first_word(lines[near]) == first_word else 0.0)
    is_heading = marker >= Marker.TROUBLE and _ANNOUNCES.search(lines[index][:_LINE_CHARS]) is not None
    shares = _ANNOUNCED if is_heading else _AFTER.get(marker, ())
    yield from _lines_after(lines, markers, index, shares, within)
    if marker is Marker.DETAIL and index - 1 in within and _POINTS.match(lines[index]):
        yield index - 1, _POINTED
    if marker is Marker.ERROR:
        yield from _frame_above(lines, index, within)
        yield from _headings(lines, index, within)
        yield from _own_frame(lines, index, within)


def _lines_after(
    lines: Sequence[str],
    markers: Mapping[int, Marker],
    index: int,
    shares: Sequence[float],
    within: range,
) -> Iterator[tuple[int, float]]:
    related = 1.0
    margin, first_word = _margin(lines[index]), _first_word(lines[index])
    stop = min(within.stop, index + 2 * len(shares) + 1)
    for near, share in zip(_written(lines, range(index + 1, stop)), shares, strict=False):
        line = lines[near][:_LINE_CHARS]
        role = _role(line)
        is_same_source = _first_word(line) == first_word
        if role is _Role.QUIET and not is_same_source:
            related *= _UNRELATED
            continue
        if role is _Role.LIBRARY:
            yield near, share * related * _LIBRARY_FRAME
            continue
        if role is _Role.COMPARED:
            yield near, max(_COMPARED, share) * related
            continue
        continues = (
            role in (_Role.DETAIL, _Role.FRAME)
            or _margin(line) > margin
            or markers.get(near, Marker.NONE) >= Marker.DETAIL
            or is_same_source
        )
        if not continues and shares is not _ANNOUNCED:
            related *= _UNRELATED
        yield near, share * related


def _headings(lines: Sequence[str], index: int, within: range) -> Iterator[tuple[int, float]]:
    """Yield the less indented lines above a failure, such as the file of a lint error."""
    margin = _margin(lines[index])
    shares = iter(_HEADINGS)
    for near in _written(lines, range(index - 1, max(within.start, index - _HEADING_LINES) - 1, -1)):
        if margin == 0:
            return
        if _margin(lines[near]) < margin:
            margin = _margin(lines[near])
            share = next(shares, None)
            if share is None:
                return
            yield near, share


def _frame_above(lines: Sequence[str], index: int, within: range) -> Iterator[tuple[int, float]]:
    """Yield the place above a failure: Python prints the innermost call last."""
    for near in range(index - 1, max(within.start, index - _ABOVE_LINES) - 1, -1):
        line = lines[near][:_LINE_CHARS]
        if _role(line) in (_Role.FRAME, _Role.LIBRARY) and _PLACE.search(line):
            yield near, _OWN_FRAME
            return


def _own_frame(lines: Sequence[str], index: int, within: range) -> Iterator[tuple[int, float]]:
    """Yield the first frame of the stack below a failure that is not in a library."""
    misses = 0
    for near in _written(lines, range(index + 1, min(within.stop, index + _FRAME_LINES))):
        role = _role(lines[near][:_LINE_CHARS])
        if role not in (_Role.FRAME, _Role.LIBRARY):
            misses += 1
            if misses > _MESSAGE_LINES:
                return
        elif role is _Role.FRAME and _PLACE.search(lines[near][:_LINE_CHARS]):
            yield near, _OWN_FRAME
            return


def _written(lines: Sequence[str], numbers: range) -> Iterator[int]:
    return (number for number in numbers if lines[number].strip())


def _margin(line: str) -> int:
    start = line[:_LINE_CHARS]
    return len(start) - len(start.lstrip())


def _first_word(line: str) -> str:
    return next(iter(line[:200].split(maxsplit=1)), "")
