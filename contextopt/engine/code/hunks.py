"""Cut a file into units, and rate them by the task's rare words and whole identifiers."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from contextopt.engine.code.graph.values import ParsedFile
from contextopt.engine.text.lexical import Bm25, split_identifier, weigh_task, whole_identifier, words_of

_WINDOW_LINES = 30
_BM25 = Bm25(b=0.5)


class Unit(NamedTuple):
    """Lines that are shown together or not at all. If they are not, `head` may be shown instead."""

    start: int
    end: int
    head: str
    depth: int

    def body(self, lines: Sequence[str]) -> str:
        return "\n".join(lines[self.start - 1 : self.end])


@dataclass(frozen=True, slots=True)
class HunkWeights:
    """How a task's words choose hunks.

    `title` is the extra weight of a word in the first line, `identifiers` the weight of a whole identifier
    beside its parts, `rarity` the power of a word's weight in the repository, and `heads` the extra weight of
    a word in a definition's head. A hunk scores at least `neighbours` times as much as the one beside it. The
    first and the last hunk, where imports and definitions are added, score `edges` times as much as the best.
    """

    title: float = 1.0
    identifiers: float = 2.0
    rarity: float = 1.0
    heads: float = 2.0
    neighbours: float = 0.3
    edges: float = 0.3


@dataclass(frozen=True, slots=True)
class TaskWords:
    """The terms and whole identifiers of a task with their weights. No term looks like an identifier."""

    weights: Mapping[str, float]
    by: HunkWeights
    _found: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, query: str, rarity: Mapping[str, float], by: HunkWeights) -> Self:
        """Weigh the task's words. The rarity of a word that `rarity` lacks is 1."""
        terms, identifiers = weigh_task(query, by.title)
        weights = {term: weight * rarity.get(term, 1.0) ** by.rarity for term, weight in terms.items()}
        if by.identifiers:
            weights |= {
                whole: by.identifiers * weight * rarity.get(whole, 1.0) ** by.rarity
                for whole, weight in identifiers.items()
            }
        return cls(weights, by)

    def rate(self, lines: Sequence[str], units: Sequence[Unit]) -> list[float]:
        """Return each unit's score among the units of its file; all 0 if no word is in the file."""
        texts = [Counter(words_of(unit.body(lines))) for unit in units]
        lengths = [words.total() for words in texts]
        wanted = {word for word in set().union(*texts) if self._terms_in(word)}
        counts = [self._count({word: words[word] for word in wanted & words.keys()}) for words in texts]
        containing = Counter(term for count in counts for term in count)
        value = {
            term: self.weights[term] * _BM25.idf(len(units), number) for term, number in containing.items()
        }
        mean = sum(lengths) / max(1, len(lengths)) or 1.0
        scores = [
            _score(count, length / mean, value)
            + self.by.heads * math.fsum(value[term] for term in self._terms_of(unit.head) if term in value)
            for unit, length, count in zip(units, lengths, counts, strict=True)
        ]
        if scores and self.by.edges:
            least = self.by.edges * max(scores)
            scores[0], scores[-1] = max(scores[0], least), max(scores[-1], least)
        before, after = [0.0, *scores[:-1]], [*scores[1:], 0.0]
        return [
            max(score, self.by.neighbours * max(beside))
            for score, *beside in zip(scores, before, after, strict=False)
        ]

    def _count(self, words: Mapping[str, int]) -> Counter[str]:
        counts: Counter[str] = Counter()
        for word, count in words.items():
            for term in self._terms_in(word):
                counts[term] += count
        return counts

    def _terms_of(self, text: str) -> set[str]:
        return {term for word in words_of(text) for term in self._terms_in(word)}

    def _terms_in(self, word: str) -> tuple[str, ...]:
        """Return those of the task's terms that a word of a file contains."""
        found = self._found.get(word)
        if found is None:
            terms = (*split_identifier(word), whole_identifier(word))
            found = self._found[word] = tuple(term for term in terms if term in self.weights)
        return found


def _score(counts: Mapping[str, int], length: float, value: Mapping[str, float]) -> float:
    """Return the BM25 score of a unit; `length` is relative to the mean."""
    norm = _BM25.k1 * (1 - _BM25.b + _BM25.b * length)
    return math.fsum(value[term] * count * (_BM25.k1 + 1) / (count + norm) for term, count in counts.items())


def cut_into_units(lines: Sequence[str], parsed: ParsedFile) -> Iterator[Unit]:
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


def _windows(lines: Sequence[str], start: int, end: int, head: str, depth: int) -> Iterator[Unit]:
    """Cut a long stretch into windows, and leave out blank ones."""
    size = _WINDOW_LINES if end - start + 1 > 2 * _WINDOW_LINES else end - start + 1
    for first in range(start, end + 1, size):
        last = min(end, first + size - 1)
        if any(line.strip() for line in lines[first - 1 : last]):
            yield Unit(first, last, head if first == start else "", depth)
