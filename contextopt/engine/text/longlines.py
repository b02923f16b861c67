"""Cut long lines of a diff to the part that changed: `-…price = 7, "x…` against `+…price = 8, "x…`."""

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest

from contextopt.engine.text.cleaning import ELLIPSIS

_CHANGES = "-+\\"
"""The first characters of removed lines, added lines and notes about them."""
_MARKS = 4
"""Characters of a cut line that we add: the sign, two ellipses and the line break."""


def shorten_lines(lines: Sequence[str], width: int, is_long: int) -> list[str]:
    """Return the diff's lines. Lines longer than `is_long` characters are cut to `width`.

    A removed line and the one added for it are cut around their difference. All other lines are cut at their
    end.
    """
    shown: list[str] = []
    for is_change, group in groupby(lines, lambda line: line[0] in _CHANGES):
        block = list(group)
        # A note without a change before it is about an unchanged line.
        is_noted = block[0][0] == "\\"
        if is_change and not is_noted and any(len(line) > is_long for line in block):
            block = [line for pair in _pairs(block) for line in _cut_pair(*pair, width, is_long)]
        shown += [_cut(line, 0, 0, width) if len(line) > is_long else line for line in block]
    return shown


def _pairs(block: Sequence[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield each removed line with its replacement, both with their notes."""
    sides: dict[str, list[list[str]]] = {"-": [], "+": []}
    for line in block:
        if line[0] in sides:
            side = sides[line[0]]
            side.append([line])
        else:
            side[-1].append(line)
    return zip_longest(sides["-"], sides["+"], fillvalue=[])


def _cut_pair(removed: list[str], added: list[str], width: int, is_long: int) -> list[str]:
    if removed and added and max(len(removed[0]), len(added[0])) > is_long:
        old, new = removed[0], added[0]
        start, end = _difference(old, new)
        removed = [_cut(old, start, len(old) - end, width), *removed[1:]]
        added = [_cut(new, start, len(new) - end, width), *added[1:]]
    return [*removed, *added]


def _difference(old: str, new: str) -> tuple[int, int]:
    """Return the lengths of the two lines' common start, with the sign, and of their common end."""
    start = 1 + _shared(old[1:], new[1:])
    return start, _shared(old[start:][::-1], new[start:][::-1])


def _shared(one: str, other: str) -> int:
    """Return the length of the longest common prefix, by bisection: comparing slices is fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _cut(line: str, start: int, end: int, width: int) -> str:
    """Return the line's sign and at most `width` characters in all, with `start` to `end` visible.

    A longer stretch is shown from its beginning.
    """
    sign, body = line[0], line[1:].removesuffix("\n")
    room = width - _MARKS
    if len(body) <= room:
        return line
    start, end = max(0, start - 1), max(0, min(end - 1, len(body)))
    before = max(room // 4, (room - (end - start)) // 2)
    first = min(max(0, start - before), len(body) - room)
    last = first + room
    lead, tail = ELLIPSIS if first else "", ELLIPSIS if last < len(body) else ""
    return f"{sign}{lead}{body[first:last]}{tail}\n"
