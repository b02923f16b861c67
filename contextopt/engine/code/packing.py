"""Pack ranked files into a token budget: whole, in part, as signatures, or as a path only.

Files are taken strictly by rank. Each has a share of the budget that shrinks from rank to rank. A file is
shown whole if it fits. Otherwise it is shown as hunks that match the task's words, among the signatures of
the rest. The unused part of a share goes to the files after it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from contextopt.engine.code.graph import ParsedFile
from contextopt.engine.text.cleaning import flatten
from contextopt.engine.text.errors import InvalidValue
from contextopt.engine.text.lexical import Bm25, LexicalIndex, terms
from contextopt.engine.text.tokens import MAX_CHARS_PER_TOKEN, Tokenizer
from contextopt.engine.text.validation import MAX_INT, check_int

FULL = "full"
HUNKS = "hunks"
SIGNATURES = "signatures"
PATH = "path"

OTHERS_HEADER = "## Further files"

_WINDOW_LINES = 30
_MAX_UNITS = 400
# Program text has fewer characters per token on average, so a longer text is not worth counting.
_LIKELY_CHARS_PER_TOKEN = 12


class Ranked(Protocol):
    """The packing input for a ranked file."""

    @property
    def path(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Policy:
    """How the budget is shared.

    `density` times the square root of the budget in thousands is the number of files that may be shown: 8,000
    tokens show about 17. Shares fall geometrically; the last file's is `tail` of the first's. `paths` is
    reserved for the paths of files that are not shown, and `most_paths` limits their number.
    """

    density: float = 6.0
    tail: float = 0.15
    paths: float = 0.03
    most_paths: int = 50

    def __post_init__(self) -> None:
        if not (self.density > 0 and 0 < self.tail <= 1 and 0 <= self.paths <= 1):
            raise InvalidValue("policy", "density must be above 0, shares from 0 to 1")

    def shares(self, budget: int) -> list[float]:
        """Return each file's share in tokens, the best first; together the budget except for `paths`."""
        count = max(1, round(self.density * math.sqrt(budget / 1000)))
        ratio = self.tail ** (1 / max(1, count - 1))
        raw = [ratio**place for place in range(count)]
        return [budget * (1 - self.paths) * share / sum(raw) for share in raw]


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text and its parse result."""

    text: str
    parsed: ParsedFile


@dataclass(frozen=True, slots=True)
class PackedFile:
    """How a file is shown: `spans` are the lines shown in full, both ends included, `heads` the first lines
    of definitions shown as signatures.
    """

    path: str
    mode: str
    tokens: int
    spans: tuple[tuple[int, int], ...] = ()
    heads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Packed:
    """The text, the files shown in it, and its exact number of tokens."""

    text: str
    files: tuple[PackedFile, ...]
    tokens: int


class _Section(NamedTuple):
    text: str
    mode: str
    tokens: int
    spans: tuple[tuple[int, int], ...] = ()
    heads: tuple[int, ...] = ()


class _Unit(NamedTuple):
    """Lines that are shown together or not at all. `head` is shown if they are not."""

    start: int
    end: int
    head: str
    depth: int


def pack(
    ranked: Sequence[Ranked],
    sources: Mapping[str, Source],
    budget: int,
    tokenizer: Tokenizer,
    *,
    query: str = "",
    policy: Policy = Policy(),  # frozen
) -> Packed:
    """Show as much of the best files as fits. `tokens` is the count of `text` and never over the budget."""
    check_int("budget", budget, 0, MAX_INT)
    words = dict.fromkeys(terms(query), 1.0)
    shown: list[tuple[str, _Section]] = []
    shares = policy.shares(budget)
    left, carried = int(sum(shares)), 0.0
    rest: list[str] = []
    for file in ranked:
        source = sources.get(file.path)
        if len(shown) == len(shares) or left < shares[-1] / 2:
            # The rest would show next to nothing, and trying every file would only take time.
            rest.append(file.path)
            continue
        carried += shares[len(shown)]
        section = _fitted(file.path, source, min(left, int(carried)), words, tokenizer) if source else None
        if section is None:
            carried -= shares[len(shown)]
            rest.append(file.path)
            continue
        shown.append((file.path, section))
        left -= section.tokens
        carried -= section.tokens
    return _checked(shown, rest[: policy.most_paths], budget, tokenizer)


def _checked(
    shown: list[tuple[str, _Section]], rest: Sequence[str], budget: int, tokenizer: Tokenizer
) -> Packed:
    """Join the sections and count the whole. If it exceeds the budget, remove sections from the end."""
    body = "".join(section.text for _, section in shown)
    tokens = tokenizer.count(body)
    while shown and tokens > budget:
        shown.pop()
        body = "".join(section.text for _, section in shown)
        tokens = tokenizer.count(body)
    files = [
        PackedFile(path, section.mode, section.tokens, section.spans, section.heads)
        for path, section in shown
    ]
    named = len(rest)
    while named:
        listed = OTHERS_HEADER + "\n" + "".join(f"{flatten(path)}\n" for path in rest[:named])
        with_paths = tokenizer.count(body + listed)
        if with_paths <= budget:
            files += [PackedFile(path, PATH, tokenizer.count(f"{flatten(path)}\n")) for path in rest[:named]]
            return Packed(body + listed, tuple(files), with_paths)
        named = min(named - 1, named * max(0, budget - tokens) // max(1, with_paths - tokens))
    return Packed(body, tuple(files), tokens)


def _fitted(
    path: str, source: Source, allowance: int, words: Mapping[str, float], tokenizer: Tokenizer
) -> _Section | None:
    """Show the file in the best way that fits, or return None if not even one signature does."""
    if source.parsed.skipped or allowance <= 0:
        return None
    text = source.text.rstrip()
    lines = text.split("\n")
    if len(text) <= allowance * _LIKELY_CHARS_PER_TOKEN:
        whole = f"## {flatten(path)}\n{text}\n" if text else f"## {flatten(path)} (empty)\n"
        tokens = tokenizer.count(whole)
        if tokens <= allowance:
            return _Section(whole, FULL, tokens, ((1, len(lines)),))
    return _partial(path, lines, source.parsed, allowance, words, tokenizer)


def _partial(
    path: str,
    lines: Sequence[str],
    parsed: ParsedFile,
    allowance: int,
    words: Mapping[str, float],
    tokenizer: Tokenizer,
) -> _Section | None:
    units = list(_units(lines, parsed))[:_MAX_UNITS]
    texts = {f"{number:06}": terms(_body(lines, unit)) for number, unit in enumerate(units)}
    scores = LexicalIndex.build(texts).scores(words, Bm25()) if units else ()
    order = sorted(range(len(units)), key=lambda number: (-scores[number], number))
    chosen: set[int] = set()
    heads: set[int] = set()
    used = tokenizer.count(f"## {flatten(path)} ({SIGNATURES}, {len(lines)} lines)\n")
    for number in order:
        unit = units[number]
        if scores[number] <= 0 and chosen:
            break
        cost = _cost(_hunk(lines, unit), allowance - used, tokenizer)
        if scores[number] > 0 and used + cost <= allowance:
            chosen.add(number)
            used += cost
    for number in order:
        unit = units[number]
        if number in chosen or not unit.head:
            continue
        cost = _cost(_signature(unit), allowance - used, tokenizer)
        if used + cost > allowance:
            break
        heads.add(number)
        used += cost
    return _rendered(path, lines, units, chosen, heads, allowance, tokenizer)


def _rendered(
    path: str,
    lines: Sequence[str],
    units: Sequence[_Unit],
    chosen: set[int],
    heads: set[int],
    allowance: int,
    tokenizer: Tokenizer,
) -> _Section | None:
    if not chosen and not heads:
        return None
    parts = [
        _hunk(lines, unit) if number in chosen else _signature(unit)
        for number, unit in enumerate(units)
        if number in chosen or number in heads
    ]
    mode = HUNKS if chosen else SIGNATURES
    text = f"## {flatten(path)} ({mode}, {len(lines)} lines)\n" + "".join(parts)
    tokens = tokenizer.count(text)
    if tokens > allowance:
        # The parts were counted separately. A tokenizer that merges across their borders may give a slightly
        # higher total.
        last = max(heads or chosen)
        return _rendered(path, lines, units, chosen - {last}, heads - {last}, allowance, tokenizer)
    spans = tuple((units[number].start, units[number].end) for number in sorted(chosen))
    return _Section(text, mode, tokens, spans, tuple(units[number].start for number in sorted(heads)))


def _units(lines: Sequence[str], parsed: ParsedFile) -> Iterator[_Unit]:
    """Cut the file into leaf definitions and windows of the lines between them."""
    at = 1
    symbols = parsed.symbols
    for position, symbol in enumerate(symbols):
        following = symbols[position + 1] if position + 1 < len(symbols) else None
        start = max(at, symbol.start)
        if at < start:
            yield from _windows(lines, at, start - 1, "", 0)
        end = min(symbol.end, len(lines))
        if following is not None and following.start <= symbol.end:
            end = min(end, following.start - 1)
        if start <= end:
            yield from _windows(lines, start, end, symbol.signature, symbol.depth)
            at = end + 1
    if at <= len(lines):
        yield from _windows(lines, at, len(lines), "", 0)


def _windows(lines: Sequence[str], start: int, end: int, head: str, depth: int) -> Iterator[_Unit]:
    """Cut long stretches into windows, without the blank ones."""
    size = _WINDOW_LINES if end - start + 1 > 2 * _WINDOW_LINES else end - start + 1
    for first in range(start, end + 1, size):
        last = min(end, first + size - 1)
        if any(line.strip() for line in lines[first - 1 : last]):
            yield _Unit(first, last, head if first == start else "", depth)


def _body(lines: Sequence[str], unit: _Unit) -> str:
    return "\n".join(lines[unit.start - 1 : unit.end])


def _hunk(lines: Sequence[str], unit: _Unit) -> str:
    return f"@@ {unit.start}-{unit.end}\n{_body(lines, unit).rstrip()}\n"


def _signature(unit: _Unit) -> str:
    return f"@@ {unit.start} {'  ' * unit.depth}{unit.head}\n"


def _cost(text: str, left: int, tokenizer: Tokenizer) -> int:
    """Count a part, unless it is so long that it cannot fit."""
    if len(text) > left * MAX_CHARS_PER_TOKEN or len(text) > max(left, 1) * _LIKELY_CHARS_PER_TOKEN:
        return left + 1
    return tokenizer.count(text)
