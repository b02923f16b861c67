r"""Unified diffs that apply back byte for byte, in bounded time.

A line ends at "\n" and nowhere else, so a form feed, U+2028 or a lone carriage return is ordinary content. A
file without a final line break gets the customary marker. The diff has no file headings.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, groupby, zip_longest
from typing import NamedTuple

from contextopt.engine.text.cleaning import ELLIPSIS
from contextopt.engine.text.quoting import NO_NEWLINE

type Match = tuple[int, int, int]
"""An old line, the equal new line, and the length of the equal stretch."""

NO_CHANGES = "[no changes detected]"
CONTEXT_LINES = 1
MAX_WORK = 1_500_000
"""Maximum comparisons for one diff, or for all files of one attempt together: about a second.

The rest is replaced as a block.
"""

_MAX_EDITS = 600


class Change(NamedTuple):
    """Old lines `old_start` to `old_end` became new lines `new_start` to `new_end`; ends are exclusive."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


class Work:
    """The remaining comparisons for one diff, or for several together."""

    def __init__(self, limit: int = MAX_WORK) -> None:
        self.left = limit


class Patch(NamedTuple):
    """A diff whose lines are produced as they are read, and its number of changed lines."""

    lines: Iterator[str]
    changed_lines: int


def diff_text(old: str, new: str, *, context_lines: int = CONTEXT_LINES) -> str:
    """Return the unified diff from old to new, or `[no changes detected]`."""
    if old == new:
        return NO_CHANGES
    return "".join(diff_lines(old, new, Work(), context_lines=context_lines).lines)


def diff_lines(old: str, new: str, work: Work, *, context_lines: int = CONTEXT_LINES) -> Patch:
    """Return the unified diff of two different texts within the remaining work."""
    old_lines, new_lines = split_lines(old), split_lines(new)
    matches = _match_lines(old_lines, new_lines, work)
    hunks = _group(_find_changes(matches, len(old_lines), len(new_lines)), context_lines)
    lines = (part for hunk in hunks for part in _render_hunk(hunk, old_lines, new_lines, context_lines))
    kept = sum(length for _, _, length in matches)
    return Patch(lines, len(old_lines) + len(new_lines) - 2 * kept)


def split_lines(text: str) -> list[str]:
    r"""Split after each "\n". Joining the parts restores the text."""
    parts = text.split("\n")
    last = parts.pop()
    lines = [part + "\n" for part in parts]
    return [*lines, last] if last else lines


def _match_lines(old_lines: list[str], new_lines: list[str], work: Work) -> list[Match]:
    """Return equal stretches, ascending in both texts, as far as the bounded search finds them."""
    if work.left <= 0:
        return _match(old_lines, new_lines, work)
    numbers: dict[str, int] = {}
    old = [numbers.setdefault(line, len(numbers)) for line in old_lines]
    new = [numbers.setdefault(line, len(numbers)) for line in new_lines]
    matches = _match(old, new, work)
    # Joining many small stretches takes as long as finding them.
    work.left -= len(matches)
    return matches


def _find_changes(matches: Iterable[Match], old_length: int, new_length: int) -> Iterator[Change]:
    """Yield the changes between the matches, in order."""
    old_at = new_at = 0
    for old_start, new_start, length in chain(matches, [(old_length, new_length, 0)]):
        if old_start > old_at or new_start > new_at:
            yield Change(old_at, old_start, new_at, new_start)
        old_at, new_at = old_start + length, new_start + length


def _match[Line: Hashable](old: list[Line], new: list[Line], work: Work) -> list[Match]:
    matches: list[Match] = []
    regions = [(0, len(old), 0, len(new))]
    while regions:
        a, b, c, d = regions.pop()
        start, end = a, b
        while a < b and c < d and old[a] == new[c]:
            a, c = a + 1, c + 1
        if a > start:
            matches.append((start, c - (a - start), a - start))
        while a < b and c < d and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
        if b < end:
            matches.append((b, d, end - b))
        if a == b or c == d or work.left <= 0:
            continue
        found = _shortest_edit(old[a:b], new[c:d], work)
        if found is not None:
            matches += [(a + x, c + y, 1) for x, y in found]
            continue
        anchors = [(a + x, c + y) for x, y in _unique_anchors(old[a:b], new[c:d], work)]
        if anchors:
            matches += [(x, y, 1) for x, y in anchors]
            starts = [(a, c), *((x + 1, y + 1) for x, y in anchors)]
            ends = [*anchors, (b, d)]
            regions += [(x, u, y, v) for (x, y), (u, v) in zip(starts, ends, strict=True) if x < u and y < v]
    return sorted(matches)


def _shortest_edit[Line: Hashable](
    old: list[Line], new: list[Line], work: Work
) -> list[tuple[int, int]] | None:
    """Return the pairs of a longest common subsequence, or None if that takes too many edits.

    Source: E. W. Myers, An O(ND) Difference Algorithm and Its Variations (1986), figure 2.
    """
    partners = _count_partners(old, new)
    if not partners:
        return []
    # Each line without a partner is an edit. With too many of them the search would fail.
    if len(old) + len(new) - partners - _count_partners(new, old) > _MAX_EDITS:
        return None
    n, m = len(old), len(new)
    furthest = {1: 0}
    trace: list[dict[int, int]] = []
    for edits in range(min(_MAX_EDITS, n + m) + 1):
        trace.append(dict(furthest))
        for diagonal in range(-edits, edits + 1, 2):
            down = _goes_down(furthest, diagonal, edits)
            x = start = furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1
            y = x - diagonal
            while x < n and y < m and old[x] == new[y]:
                x, y = x + 1, y + 1
            furthest[diagonal] = x
            work.left -= 1 + x - start
            if x >= n and y >= m:
                return _walk_back(trace, n, m)
        if work.left <= 0:
            return None
    return None


def _count_partners[Line: Hashable](old: list[Line], new: list[Line]) -> int:
    """Return the number of old lines that occur among the new ones."""
    return sum(map(set(new).__contains__, old))


def _goes_down(furthest: dict[int, int], diagonal: int, edits: int) -> bool:
    """Return whether the furthest path to this diagonal inserts a line instead of deleting one."""
    if diagonal in (-edits, edits):
        return diagonal == -edits
    return furthest[diagonal - 1] < furthest[diagonal + 1]


def _walk_back(trace: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    pairs = []
    for edits in range(len(trace) - 1, -1, -1):
        furthest, diagonal = trace[edits], x - y
        down = _goes_down(furthest, diagonal, edits)
        before = diagonal + 1 if down else diagonal - 1
        start = furthest[before]
        snake_start = start if down else start + 1
        while x > snake_start:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = start, start - before
    return pairs


def _unique_anchors[Line: Hashable](old: list[Line], new: list[Line], work: Work) -> list[tuple[int, int]]:
    """Return lines that occur once on each side, as many as keep their order (patience diff)."""
    work.left -= len(old) + len(new)
    old_counts, new_counts = Counter(old), Counter(new)
    place = {line: y for y, line in enumerate(new) if new_counts[line] == 1}
    pairs = [(x, place[line]) for x, line in enumerate(old) if old_counts[line] == 1 and line in place]
    return _longest_ascending(pairs)


def _longest_ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence that ascends in its second number."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, (_, y) in enumerate(pairs):
        pile = bisect_left(tails, y)
        before.append(ends[pile - 1] if pile else -1)
        tails[pile : pile + 1] = [y]
        ends[pile : pile + 1] = [index]
    chain = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]


def _group(changes: Iterable[Change], context_lines: int) -> Iterator[list[Change]]:
    """Group changes into one hunk if their context would touch."""
    hunk: list[Change] = []
    for change in changes:
        if hunk and change.old_start - hunk[-1].old_end > 2 * context_lines:
            yield hunk
            hunk = []
        hunk.append(change)
    if hunk:
        yield hunk


def _render_hunk(hunk: list[Change], old: list[str], new: list[str], context_lines: int) -> Iterator[str]:
    lead = min(context_lines, hunk[0].old_start)
    tail = min(context_lines, len(old) - hunk[-1].old_end)
    old_start, new_start = hunk[0].old_start - lead, hunk[0].new_start - lead
    old_range = _range(old_start, hunk[-1].old_end + tail)
    new_range = _range(new_start, hunk[-1].new_end + tail)
    yield f"@@ -{old_range} +{new_range} @@\n"
    at = old_start
    for change in hunk:
        yield from _prefixed(" ", old[at : change.old_start])
        yield from _prefixed("-", old[change.old_start : change.old_end])
        yield from _prefixed("+", new[change.new_start : change.new_end])
        at = change.old_end
    yield from _prefixed(" ", old[at : at + tail])


def _prefixed(sign: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        if line.endswith("\n"):
            yield f"{sign}{line}"
        else:
            yield f"{sign}{line}\n"
            yield NO_NEWLINE


def _range(start: int, end: int) -> str:
    # As in every unified diff, an empty range is named by the line before it, and a length of 1 is omitted.
    length = end - start
    if length == 1:
        return str(end)
    return f"{start + 1 if length else start},{length}"


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
        # The lengths of their common start, with the sign, and of their common end.
        start = 1 + _shared(old[1:], new[1:])
        end = _shared(old[start:][::-1], new[start:][::-1])
        removed = [_cut(old, start, len(old) - end, width), *removed[1:]]
        added = [_cut(new, start, len(new) - end, width), *added[1:]]
    return [*removed, *added]


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
