"""Records that say the same as one that is in already.

Two texts are near-duplicates when their runs of three words overlap by nine tenths (Jaccard), and nothing
that carries a fact tells them apart: numbers, versions, identifiers and negations must be the same. Texts
under eight words must be the same word by word.

Source: Broder 1997, On the resemblance and containment of documents (shingles, resemblance).
"""

import re
from collections import Counter, defaultdict

from contextopt.engine.text import flatten

RESEMBLANCE = 0.9
SHINGLE_WORDS = 3
MIN_WORDS = 8
MAX_CHARS = 20_000
"""Of longer texts this much is compared, and the length."""

_WORD = re.compile(r"\w+(?:[.'’/_:-]\w+)*")
_NEGATIONS = frozenset(
    {
        *("no", "not", "never", "none", "nor", "neither", "without", "cannot"),
        *("ikke", "ingen", "intet", "aldri", "uten", "ei", "hverken", "verken"),
    }
)


class SeenTexts:
    """The texts that are in so far; asked before each further one."""

    def __init__(self) -> None:
        self._exact: dict[tuple[str, ...], int] = {}
        self._positions: dict[int, int] = {}
        self._shingles: dict[int, frozenset[tuple[str, ...]]] = {}
        self._facts: dict[int, Counter[str]] = {}
        self._holders: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)

    def original_of(self, text: str) -> int | None:
        """Return the first text that this one nearly repeats, None if it is new."""
        words = _words(text)
        if (same := self._exact.get(words)) is not None:
            return same
        shingles = _shingles(words)
        if not shingles:
            return None
        shared = Counter(holder for shingle in shingles for holder in self._holders.get(shingle, ()))
        facts = _facts(words)
        return min(
            (
                holder
                for holder, count in shared.items()
                if count >= RESEMBLANCE * (len(shingles) + len(self._shingles[holder]) - count)
                and self._facts[holder] == facts
            ),
            key=self._positions.__getitem__,
            default=None,
        )

    def add(self, text_id: int, text: str) -> None:
        words = _words(text)
        self._exact.setdefault(words, text_id)
        self._positions[text_id] = len(self._positions)
        shingles = _shingles(words)
        self._shingles[text_id] = shingles
        self._facts[text_id] = _facts(words)
        for shingle in shingles:
            self._holders[shingle].append(text_id)


def _words(text: str) -> tuple[str, ...]:
    words = _WORD.findall(flatten(text[:MAX_CHARS]).casefold())
    if len(text) > MAX_CHARS:
        words.append(f"and {len(text)} characters")
    # A text of signs alone is compared as it stands.
    return tuple(words) or (flatten(text[:MAX_CHARS]),)


def _shingles(words: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    if len(words) < MIN_WORDS:
        return frozenset()
    return frozenset(words[at : at + SHINGLE_WORDS] for at in range(len(words) - SHINGLE_WORDS + 1))


def _facts(words: tuple[str, ...]) -> Counter[str]:
    """Count the words that a paraphrase may not change."""
    return Counter(word for word in words if _is_fact(word))


def _is_fact(word: str) -> bool:
    return (
        word in _NEGATIONS
        or word.endswith(("n't", "n’t"))
        or any(char.isdigit() for char in word)
        or not word.isalpha()
    )
