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
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple

from contextopt.engine.text.cleaning import flatten

RESEMBLANCE = 0.9
SHINGLE_WORDS = 3
MIN_WORDS = 8
MAX_CHARS = 20_000
"""Longer texts are compared by this many characters and their length."""

COMMIT = "commit"
"""Type of the records whose titles are compared without their numbers."""

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"\w+(?:[.'’/_:-]\w+)*")
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


class SeenTexts:
    """The texts included so far. A further text is admitted unless it repeats one of them."""

    def __init__(self) -> None:
        self._exact: dict[tuple[str, ...], int] = {}
        self._words: dict[int, tuple[str, ...]] = {}
        self._shingles: dict[int, Shingles] = {}

    def admit(self, text_id: int, text: str, *, always: bool = False) -> int | None:
        """Admit the text and return None, or return the id of the first admitted text that it nearly repeats.

        With `always` it is admitted even if it repeats one.
        """
        words = _words(text)
        shingles = _shingles(words)
        original = None if always else self._original_of(words, shingles)
        if original is None:
            self._exact.setdefault(words, text_id)
            self._words[text_id] = words
            self._shingles[text_id] = shingles
        return original

    def _original_of(self, words: tuple[str, ...], shingles: Shingles) -> int | None:
        if (same := self._exact.get(words)) is not None:
            return same
        alike = [one for one, others in self._shingles.items() if _resemble(shingles, others)]
        facts = _facts(words) if alike else None
        return next((one for one in alike if _facts(self._words[one]) == facts), None)


def _words(text: str) -> tuple[str, ...]:
    words = _WORD.findall(flatten(text[:MAX_CHARS]).casefold())
    if len(text) > MAX_CHARS:
        words.append(f"and {len(text)} characters")
    # A text without words is compared as it is.
    return tuple(words) or (flatten(text[:MAX_CHARS]),)


def _shingles(words: tuple[str, ...]) -> Shingles:
    if len(words) < MIN_WORDS:
        return frozenset()
    return frozenset(zip(*(words[at:] for at in range(SHINGLE_WORDS)), strict=False))


def _resemble(one: Shingles, other: Shingles) -> bool:
    """Return whether two texts share at least nine tenths of their combined shingles."""
    # Sets of very different sizes cannot be similar enough, and most pairs are like that.
    if not one or min(len(one), len(other)) < RESEMBLANCE * max(len(one), len(other)):
        return False
    shared = len(one & other)
    return shared >= RESEMBLANCE * (len(one) + len(other) - shared)


def _facts(words: tuple[str, ...]) -> Counter[str]:
    """Count the words that a paraphrase may not change."""
    # A word that is all letters has no digit.
    return Counter(
        word for word in words if word in _NEGATIONS or word.endswith(("n't", "n’t")) or not word.isalpha()
    )
