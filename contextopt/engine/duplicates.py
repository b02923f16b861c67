"""Find records that repeat one already included.

Two texts are near-duplicates if their three-word shingles overlap by at least nine tenths (Jaccard) and no
fact tells them apart: numbers, versions, identifiers and negations must be the same. Texts under eight words
must be identical word by word.

Commits of one source whose titles differ only in numbers ("Bump the group with 3 updates") repeat the newest
of them, unless the question names such a number.

Source: Broder 1997, On the resemblance and containment of documents (shingles, resemblance).
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import NamedTuple, Self

from contextopt.engine.text.cleaning import flatten, normal_form
from contextopt.engine.text.lexical import UNSPACED

RESEMBLANCE = 0.9
SHINGLE_WORDS = 3
MIN_WORDS = 8
MAX_CHARS = 10_000
"""Longer texts are compared by this many characters, and repeat each other only if they are equally long."""

COMMIT = "commit"
"""Type of the records whose titles are compared without their numbers."""

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"\w+(?:[.'’/_:-]\w+)*")
# In a script without blanks each character counts as a word.
_UNSPACED = re.compile(f"[{UNSPACED}]")
_NEGATIONS = frozenset(
    {
        *("no", "not", "never", "none", "nor", "neither", "without", "cannot"),
        *("ikke", "ingen", "intet", "aldri", "uten", "ei", "hverken", "verken"),
    }
)

type Shingles = frozenset[tuple[str, ...]]


class Commit(NamedTuple):
    """The fields of a commit's record that decide whether it repeats another."""

    id: int
    source: str
    title: str
    date: datetime


def numbers_in(text: str) -> frozenset[str]:
    """Return the numbers of a text, such as "3" and "1.2.4"."""
    return frozenset(_NUMBER.findall(text))


def newer_commits(commits: Iterable[Commit], asked: Collection[str]) -> dict[int, int]:
    """Map each commit that a newer one repeats to the newest.

    Two commits of one source repeat each other if their titles differ only in numbers. A commit with a number
    in `asked`, the numbers of the question, is never a repetition.
    """
    groups: dict[tuple[str, str], list[Commit]] = {}
    for commit in commits:
        numbers = numbers_in(commit.title)
        if numbers and numbers.isdisjoint(asked):
            key = commit.source, _NUMBER.sub("0", commit.title.casefold())
            groups.setdefault(key, []).append(commit)
    repeated: dict[int, int] = {}
    for group in groups.values():
        newest = max(group, key=lambda commit: (commit.date, commit.id))
        repeated |= {older.id: newest.id for older in group if older.id != newest.id}
    return repeated


@dataclass(frozen=True)
class SeenTexts:
    """The texts included so far. A further text is admitted unless it repeats one of them."""

    # By length, because longer texts repeat each other only if theirs is the same.
    _seen: dict[int, dict[int, "_Said"]] = field(default_factory=dict, init=False)

    def admit(self, text_id: int, text: str, *, always: bool = False) -> int | None:
        """Admit the text and return None, or return the id of the first admitted text that it nearly repeats.

        With `always` it is admitted even if it repeats one.
        """
        said = _Said(text)
        others = self._seen.setdefault(max(len(text), MAX_CHARS), {})
        original = None if always else said.original(others)
        if original is None:
            others[text_id] = said
        return original

    def withdraw(self, text_id: int, text: str) -> None:
        """Take back an admitted text, which is not included after all."""
        del self._seen[max(len(text), MAX_CHARS)][text_id]


@dataclass(frozen=True)
class _Said:
    """A text's words, shingles and facts, each read when it is needed."""

    _text: str

    def original(self, others: Mapping[int, Self]) -> int | None:
        """Return the id of the first text that this one repeats word by word, or else nearly."""
        for one, other in others.items():
            if self.words == other.words:
                return one
        return next((one for one, other in others.items() if self._nearly_repeats(other)), None)

    def _nearly_repeats(self, other: Self) -> bool:
        return _resemble(self.shingles, other.shingles) and self.facts == other.facts

    @cached_property
    def words(self) -> tuple[str, ...]:
        text = flatten(normal_form(self._text[:MAX_CHARS]))
        # A text without words is compared as it is.
        return tuple(_WORD.findall(_UNSPACED.sub(r" \g<0> ", text.casefold()))) or (text,)

    @cached_property
    def shingles(self) -> Shingles:
        words = self.words
        if len(words) < MIN_WORDS:
            return frozenset()
        return frozenset(zip(*(words[at:] for at in range(SHINGLE_WORDS)), strict=False))

    @cached_property
    def facts(self) -> Counter[str]:
        """The words that a paraphrase may not change, with their numbers."""
        # A word that is all letters has no digit.
        return Counter(
            word
            for word in self.words
            if word in _NEGATIONS or word.endswith(("n't", "n’t")) or not word.isalpha()
        )


def _resemble(one: Shingles, other: Shingles) -> bool:
    """Return whether two texts share at least nine tenths of their combined shingles."""
    # Sets of very different sizes cannot be similar enough, and most pairs are like that.
    if not one or min(len(one), len(other)) < RESEMBLANCE * max(len(one), len(other)):
        return False
    # At most a tenth of the first is not shared, so of any fifth of it at most a half.
    fifth = frozenset(islice(one, len(one) // 5))
    if len(fifth - other) > (1 - RESEMBLANCE) * len(one) + 1:
        return False
    shared = len(one & other)
    return shared >= RESEMBLANCE * (len(one) + len(other) - shared)
