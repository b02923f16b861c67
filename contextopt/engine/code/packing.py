"""Pack ranked files into a token budget: whole, in part, as signatures, or as a path only.

Files are taken strictly by rank. Each has a share of the budget that shrinks from rank to rank, and with its
score. A file is shown whole if it fits. Otherwise it is shown as hunks that match the task's words, among the
signatures of the rest. The unused part of a share goes to the files after it, and in the end back to the
best.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple, Protocol

from contextopt.engine.code.graph.values import ParsedFile
from contextopt.engine.code.hunks import HunkWeights, TaskWords, Unit, cut_into_units
from contextopt.engine.text.cleaning import flatten
from contextopt.engine.text.tokens import MAX_CHARS_PER_TOKEN, Tokenizer
from contextopt.engine.validation import MAX_INT, InvalidValue, check_int

FULL = "full"
HUNKS = "hunks"
SIGNATURES = "signatures"
PATH = "path"

OTHERS_HEADER = "## Further files"

_MAX_UNITS = 400
# A lower score counts as this part of the best, so that no file's share becomes too small.
_LEAST_SCORE = 0.02
# Less room than this is not worth enlarging a file for.
_WORTH_WIDENING = 20
# Code has fewer characters per token on average, so a text longer than this cannot fit and is not counted.
_LIKELY_CHARS_PER_TOKEN = 12


class Ranked(Protocol):
    """The packing input for a ranked file."""

    @property
    def path(self) -> str: ...

    @property
    def score(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Policy:
    """How the budget is shared.

    `density` times the square root of the budget in thousands is the number of files that may be shown: 8,000
    tokens show about 13. Shares fall geometrically; the last file's is `tail` of the first's if their scores
    are equal. A lower score lowers the share by its ratio to the best, to the power of `score_power`. `paths`
    is reserved for the paths of files that are not shown, and `most_paths` limits their number. `hunks`
    chooses the hunks, and `uses_leftover` gives room that was left over to the best files.
    """

    density: float = 4.5
    tail: float = 0.1
    score_power: float = 0.7
    paths: float = 0.03
    most_paths: int = 50
    hunks: HunkWeights = field(default_factory=HunkWeights)
    uses_leftover: bool = True

    def __post_init__(self) -> None:
        if not (self.density > 0 and 0 < self.tail <= 1 and 0 <= self.paths <= 1):
            raise InvalidValue("policy", "density must be above 0, shares from 0 to 1")

    def shares(self, budget: int, scores: Sequence[float]) -> list[float]:
        """Return each file's share in tokens for scores that fall; together the budget except for `paths`."""
        count = max(1, round(self.density * math.sqrt(budget / 1000)))
        ratio = self.tail ** (1 / max(1, count - 1))
        best = scores[0] if scores and scores[0] > 0 else 1.0
        raw = [
            ratio**place * max(_LEAST_SCORE, score / best) ** self.score_power
            for place, score in enumerate(scores[:count])
        ]
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
    file: PackedFile


def pack(
    ranked: Sequence[Ranked],
    sources: Mapping[str, Source],
    budget: int,
    tokenizer: Tokenizer,
    *,
    query: str = "",
    rarity: Mapping[str, float] = MappingProxyType({}),
    policy: Policy = Policy(),  # frozen
) -> Packed:
    """Show as much of the best files as fits. `tokens` is the count of `text` and never over the budget.

    `rarity` is the weight of the task's words in the repository, as `Ranker.rarity` returns it.
    """
    check_int("budget", budget, 0, MAX_INT)
    words = TaskWords.of(query, rarity, policy.hunks)
    shown: list[_Candidate] = []
    shares = policy.shares(budget, [file.score for file in ranked])
    left, carried = int(sum(shares)), 0.0
    rest: list[str] = []
    for file in ranked:
        if len(shown) == len(shares) or left < shares[-1] / 2:
            # The room that is left would show next to nothing, so do not read further files.
            rest.append(file.path)
            continue
        source = sources.get(file.path)
        carried += shares[len(shown)]
        candidate = _Candidate(file.path, source, words, tokenizer) if source else None
        if candidate is None or not candidate.fit(min(left, int(carried))):
            carried -= shares[len(shown)]
            rest.append(file.path)
            continue
        shown.append(candidate)
        left -= candidate.tokens
        carried -= candidate.tokens
    if policy.uses_leftover:
        _widen(shown, left)
    sections = [one.section for one in shown if one.section]
    return _checked(sections, rest[: policy.most_paths], budget, tokenizer)


def _widen(shown: Sequence["_Candidate"], left: int) -> None:
    """Give room that was left over to the best files."""
    for candidate in shown:
        if left < _WORTH_WIDENING:
            return
        before = candidate.tokens
        candidate.fit(before + left)
        left -= candidate.tokens - before


def _checked(shown: list[_Section], rest: Sequence[str], budget: int, tokenizer: Tokenizer) -> Packed:
    """Join the sections and count the whole. If it exceeds the budget, remove sections from the end."""
    while True:
        body = "".join(section.text for section in shown)
        tokens = tokenizer.count(body)
        if not shown or tokens <= budget:
            break
        shown.pop()
    files = [section.file for section in shown]
    named = len(rest)
    while named:
        listed = OTHERS_HEADER + "\n" + "".join(f"{flatten(path)}\n" for path in rest[:named])
        with_paths = tokenizer.count(body + listed)
        if with_paths <= budget:
            files += [PackedFile(path, PATH, tokenizer.count(f"{flatten(path)}\n")) for path in rest[:named]]
            return Packed(body + listed, tuple(files), with_paths)
        named = min(named - 1, named * max(0, budget - tokens) // max(1, with_paths - tokens))
    return Packed(body, tuple(files), tokens)


@dataclass(slots=True)
class _Candidate:
    """A file with the best section found for it so far. Nothing is cut, rated or counted twice."""

    path: str
    source: Source
    words: TaskWords
    tokenizer: Tokenizer
    section: _Section | None = None
    _rated: tuple[list[Unit], list[int], Sequence[float]] | None = None
    _costs: dict[str, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return self.section.file.tokens if self.section else 0

    def fit(self, allowance: int) -> bool:
        """Show the file as fully as fits, if that is more than before. Return whether it is shown at all."""
        if self.source.parsed.skipped or allowance <= 0 or (self.section and self.section.file.mode == FULL):
            return self.section is not None
        found = self._whole(allowance) or self._partial(allowance)
        if found is not None and found.file.tokens > self.tokens:
            self.section = found
        return self.section is not None

    def _whole(self, allowance: int) -> _Section | None:
        text = self.source.text.rstrip()
        if len(text) > allowance * _LIKELY_CHARS_PER_TOKEN:
            return None
        path = flatten(self.path)
        whole = f"## {path}\n{text}\n" if text else f"## {path} (empty)\n"
        tokens = self._cost(whole, allowance)
        if tokens > allowance:
            return None
        return _Section(whole, PackedFile(self.path, FULL, tokens, ((1, text.count("\n") + 1),)))

    def _partial(self, allowance: int) -> _Section | None:
        lines = self.source.text.rstrip().split("\n")
        units, order, scores = self._rate(lines)
        used = self.tokenizer.count(f"## {flatten(self.path)} ({SIGNATURES}, {len(lines)} lines)\n")
        chosen: set[int] = set()
        heads: set[int] = set()
        for number in order:
            if scores[number] <= 0:
                break
            cost = self._cost(_hunk(lines, units[number]), allowance - used)
            if used + cost <= allowance:
                chosen.add(number)
                used += cost
        for number in order:
            if number in chosen or not units[number].head:
                continue
            cost = self._cost(_signature(units[number]), allowance - used)
            if used + cost > allowance:
                break
            heads.add(number)
            used += cost
        return _rendered(self.path, lines, units, chosen, heads, allowance, self.tokenizer)

    def _rate(self, lines: Sequence[str]) -> tuple[list[Unit], list[int], Sequence[float]]:
        if self._rated is None:
            units = list(islice(cut_into_units(lines, self.source.parsed), _MAX_UNITS))
            scores = self.words.rate(lines, units)
            self._rated = units, sorted(range(len(units)), key=lambda at: (-scores[at], at)), scores
        return self._rated

    def _cost(self, text: str, left: int) -> int:
        """Return the tokens of a part, or more than `left` without counting if it is too long to fit."""
        if len(text) > left * MAX_CHARS_PER_TOKEN or len(text) > max(left, 1) * _LIKELY_CHARS_PER_TOKEN:
            return left + 1
        if text not in self._costs:
            self._costs[text] = self.tokenizer.count(text)
        return self._costs[text]


def _rendered(
    path: str,
    lines: Sequence[str],
    units: Sequence[Unit],
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
        # The parts were counted separately. If tokens span their borders, the total may be slightly higher.
        last = max(heads or chosen)
        return _rendered(path, lines, units, chosen - {last}, heads - {last}, allowance, tokenizer)
    spans = tuple((units[number].start, units[number].end) for number in sorted(chosen))
    starts = tuple(units[number].start for number in sorted(heads))
    return _Section(text, PackedFile(path, mode, tokens, spans, starts))


def _hunk(lines: Sequence[str], unit: Unit) -> str:
    return f"@@ {unit.start}-{unit.end}\n{unit.body(lines).rstrip()}\n"


def _signature(unit: Unit) -> str:
    return f"@@ {unit.start} {'  ' * unit.depth}{unit.head}\n"
