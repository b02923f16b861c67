"""Cut a diff so that it shows the new code.

Hunks that name what the error names come first. Removed and added lines of a hunk share the room, so a hunk
is never cut between the two. A part of a hunk has a heading with its own line numbers.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from typing import NamedTuple, Self

from contextopt.engine.agents.linediff import Patch, shorten_lines
from contextopt.engine.text.lexical import whole_identifier, words_of

MIN_LINE_CHARS = 60
"""Characters kept of each long line when many have changed."""
READ_LINES = 20_000
"""Lines of a diff that are looked at. If they add nothing, the first added lines after them are too."""
LINES_ABOVE = 2
"""Lines shown above one that the error names."""
_LEAST_LETTERS = 3
_IDENTIFIER = 3.0
"""The weight of a whole identifier, relative to a plain word."""
_HEADING = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n")


class DiffRoom(NamedTuple):
    """The most changed lines and characters of a diff; None is no limit."""

    lines: int | None
    characters: int | None


@dataclass(frozen=True, slots=True)
class Sought:
    """The words of an error with their weights."""

    weights: dict[str, float]

    @classmethod
    def of(cls, error: str) -> Self:
        words = {word for word in words_of(error) if len(word) >= _LEAST_LETTERS and not word.isdigit()}
        return cls({word: _IDENTIFIER if whole_identifier(word) else 1.0 for word in words})

    def weigh(self, hunks: Sequence["_Hunk"]) -> dict[str, float]:
        """Return the weights of the words that the hunks' changed lines have; a rare one weighs more."""
        held = [
            self.weights.keys() & {word for line in hunk.changed for word in words_of(line)} for hunk in hunks
        ]
        containing = Counter(word for words in held for word in words)
        return {
            word: self.weights[word] * math.log(1 + len(hunks) / count) for word, count in containing.items()
        }


def cut_patch(patch: Patch, room: DiffRoom, sought: Sought) -> tuple[str, bool]:
    """Return the diff, or as much of it as there is room for with a note, and whether it was cut."""
    if room == (None, None):
        return "".join(patch.lines), False
    lines = list(islice(patch.lines, READ_LINES))
    unread = next(patch.lines, None)
    is_read = unread is None
    if unread is not None and not any(line[0] == "+" for line in lines):
        lines += _first_added(chain(lines, [unread], patch.lines))
    too_many = room.lines is not None and patch.changed_lines > room.lines
    too_long = room.characters is not None and sum(map(len, lines)) > room.characters
    if is_read and not too_many and not too_long:
        return "".join(lines), False
    most, characters = math.inf if room.lines is None else room.lines, math.inf
    if room.characters is not None:
        characters = room.characters - len(_cut_note(patch.changed_lines))
        is_long = int(characters) // 3
        shares = int(characters) // (patch.changed_lines + 1)
        lines = shorten_lines(lines, min(is_long, max(shares, MIN_LINE_CHARS)), is_long)
    shown = sorted(
        _choose(list(_read_hunks(lines)), most, characters, sought), key=lambda part: part.old_start
    )
    left_out = patch.changed_lines - sum(len(part.changed) for part in shown)
    return "".join(line for part in shown for line in part.text) + _cut_note(left_out), True


def _first_added(lines: Iterator[str]) -> list[str]:
    """Return the first added lines that follow each other, under a heading of their own."""
    old = new = 0
    for line in lines:
        if line[0] == "+":
            added = [line, *islice(takewhile(lambda each: each[0] in "+\\", lines), READ_LINES)]
            count = sum(each[0] == "+" for each in added)
            return [f"@@ -{_range(old, 0)} +{_range(new, count)} @@\n", *added]
        if line[0] == "@":
            old, new = _first_lines(line)
        old, new = old + (line[0] in "- "), new + (line[0] == " ")
    return []


def _cut_note(lines: int) -> str:
    return f"[… {lines:,} more changed lines left out]" if lines else "[… long lines are cut]"


class _Hunk(NamedTuple):
    """Lines of a diff below their heading. A note on a missing line break belongs to the line before it."""

    heading: str
    old_start: int
    new_start: int
    lines: tuple[str, ...]

    @property
    def text(self) -> tuple[str, ...]:
        return (self.heading, *self.lines)

    @property
    def changed(self) -> list[str]:
        return [line for line in self.lines if line[0] in "-+"]

    @property
    def adds(self) -> bool:
        return any(line[0] == "+" for line in self.lines)

    @property
    def size(self) -> int:
        return sum(map(len, self.text))

    def blocks(self) -> Iterator["_Block"]:
        """Yield the removed and added lines that replace each other."""
        old, new, block = self.old_start, self.new_start, _Block(self.old_start, self.new_start, {}, {})
        for place, line in enumerate(self.lines):
            if line[0] == " ":
                if block.removed or block.added:
                    yield block
                old, new = old + 1, new + 1
                block = _Block(old, new, {}, {})
            elif line[0] == "-":
                block.removed[place] = line
                old += 1
            else:
                block.added[place] = line
                new += 1
        if block.removed or block.added:
            yield block


class _Block(NamedTuple):
    """Removed lines and the lines added in their place, by their place in the hunk, with the numbers of the
    first of each.
    """

    old_start: int
    new_start: int
    removed: dict[int, str]
    added: dict[int, str]


def _read_hunks(lines: Sequence[str]) -> Iterator[_Hunk]:
    heading, held = "", list[str]()
    for line in [*lines, ""]:
        if line and not _HEADING.fullmatch(line):
            if line[0] == "\\":
                held[-1] += line
            else:
                held.append(line)
            continue
        if heading:
            yield _Hunk(heading, *_first_lines(heading), tuple(held))
        heading, held = line, []


def _first_lines(heading: str) -> tuple[int, int]:
    """Return the numbers of a hunk's first old and new line. The line before an empty range names it."""
    match = _HEADING.fullmatch(heading)
    assert match is not None
    return int(match[1]) + (match[2] == "0"), int(match[3]) + (match[4] == "0")


def _choose(hunks: Sequence[_Hunk], most: float, room: float, sought: Sought) -> Iterator[_Hunk]:
    """Yield the hunks that fit, the best first, and of the first one that does not as much as fits.

    If the diff adds lines, at least one of them is shown.
    """
    weights = sought.weigh(hunks)
    worth = [_worth(hunk.changed, weights) for hunk in hunks]
    ranked = sorted(range(len(hunks)), key=lambda at: (-worth[at], at))
    first = next((at for at in ranked if hunks[at].adds), None)
    if first is not None:
        ranked.remove(first)
        ranked.insert(0, first)
    for at in ranked:
        hunk = hunks[at]
        if len(hunk.changed) > most or hunk.size > room:
            yield from _cut_hunk(hunk, most, room, weights)
            return
        yield hunk
        most, room = most - len(hunk.changed), room - hunk.size


def _cut_hunk(hunk: _Hunk, most: float, room: float, weights: dict[str, float]) -> Iterator[_Hunk]:
    """Yield a part of the hunk's best block: as many removed lines as added ones, if it has both."""
    blocks = list(hunk.blocks())
    block = max(
        blocks,
        key=lambda each: (bool(each.added), _worth([*each.removed.values(), *each.added.values()], weights)),
    )
    before, after = list(block.removed.values()), list(block.added.values())
    room -= len(_heading(block, range(len(before)), range(len(after))))
    share = 2 if before else 1
    added = _window(after, -(-most // share), room / share, weights) or _window(after, 1, room, weights)
    used = sum(len(after[at]) for at in added)
    removed = _window(before, most - len(added), room - used, weights)
    if len(removed) == len(before):
        # The added lines take what the removed ones left.
        added = _window(after, most - len(removed), room - sum(map(len, before)), weights)
    if added or removed:
        kept_before = islice(block.removed.items(), removed.start, removed.stop)
        kept_after = islice(block.added.items(), added.start, added.stop)
        lines = tuple([line for _, line in sorted([*kept_before, *kept_after])])
        heading = _heading(block, removed, added)
        yield _Hunk(heading, block.old_start + removed.start, block.new_start + added.start, lines)


def _heading(block: _Block, removed: range, added: range) -> str:
    old = _range(block.old_start + removed.start, len(removed))
    return f"@@ -{old} +{_range(block.new_start + added.start, len(added))} @@\n"


def _range(start: int, length: int) -> str:
    return str(start) if length == 1 else f"{start if length else start - 1},{length}"


def _window(lines: Sequence[str], most: float, room: float, weights: dict[str, float]) -> range:
    """Return the places of the neighbouring lines that are worth most, of those that fit."""
    first: dict[str, int] = {}
    for at, line in enumerate(lines):
        for word in weights.keys() & set(words_of(line)):
            first.setdefault(word, at)
    # The first lines, or those from just above a sought word.
    starts = sorted({0, *(max(0, at - LINES_ABOVE) for at in first.values())})
    windows = [range(start, _last_that_fits(lines, start, most, room)) for start in starts]
    return max(windows, key=lambda places: _worth([lines[at] for at in places], weights))


def _last_that_fits(lines: Sequence[str], start: int, most: float, room: float) -> int:
    end = start
    while end < len(lines) and end - start < most and len(lines[end]) <= room:
        room -= len(lines[end])
        end += 1
    return end


def _worth(lines: Sequence[str], weights: dict[str, float]) -> float:
    """Return the weight of the sought words in the lines."""
    held = {word for line in lines for word in words_of(line)}
    return math.fsum(weights[word] for word in sorted(weights.keys() & held))
