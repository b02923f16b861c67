"""Two texts side by side, line by line. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from dashboard.kit.diffs import SHOWN_CHARS

# Longer runs of equal lines are folded, and this many of them stay visible on each side.
FOLDED_FROM, CONTEXT_LINES = 8, 2


@dataclass(frozen=True, slots=True)
class Line:
    """A line of both texts, or of one of them; `folded` equal lines are left out here if it is not 0."""

    before: str | None
    after: str | None
    folded: int = 0

    @property
    def state(self) -> str:
        if self.folded:
            return "note"
        return "kept" if self.before == self.after else "gone" if self.after is None else "added"


def align(before: str, after: str) -> tuple[Line, ...]:
    """Return the lines of both texts in order, each opposite its equal."""
    was, now = (text[:SHOWN_CHARS].removesuffix("\n").split("\n") for text in (before, after))
    matcher = SequenceMatcher(None, was, now, autojunk=False)
    lines: list[Line] = []
    for tag, start, end, start_after, end_after in matcher.get_opcodes():
        if tag == "equal":
            lines += _fold(was[start:end])
        else:
            lines += [Line(line, None) for line in was[start:end]]
            lines += [Line(None, line) for line in now[start_after:end_after]]
    return tuple(lines)


def _fold(lines: Sequence[str]) -> Iterator[Line]:
    if len(lines) < FOLDED_FROM:
        yield from (Line(line, line) for line in lines)
        return
    yield from (Line(line, line) for line in lines[:CONTEXT_LINES])
    yield Line(None, None, len(lines) - 2 * CONTEXT_LINES)
    yield from (Line(line, line) for line in lines[-CONTEXT_LINES:])
