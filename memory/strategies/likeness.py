"""Compares strategies: two may be the same way of working in slightly different words."""

import re
from collections.abc import Iterable, Sequence

# With one word more, fewer or different, plans of ten words count as similar; with another step they do not.
SIMILAR_FROM = 0.8


def step_words(steps: Iterable[str]) -> frozenset[str]:
    """Return the words of the steps, ignoring case, order and punctuation."""
    return frozenset(re.findall(r"\w+", " ".join(steps).casefold()))


def overlap(steps: Sequence[str], others: Sequence[str]) -> float:
    """Return the share of words that both have in common (Jaccard), from 0 to 1; 0 if there are no words."""
    words, other_words = step_words(steps), step_words(others)
    together = words | other_words
    return len(words & other_words) / len(together) if together else 0.0
