"""Whether two strategies are the same way of working in slightly other words."""

import re
from collections.abc import Iterable, Sequence

# A word more or less in a plan of ten leaves plans alike; another step does not.
LIKE_FROM = 0.8


def step_words(steps: Iterable[str]) -> frozenset[str]:
    """Return the words of the steps, whatever their case, order and punctuation."""
    return frozenset(re.findall(r"\w+", " ".join(steps).casefold()))


def overlap(steps: Sequence[str], others: Sequence[str]) -> float:
    """Return the share of the words of both that both have (Jaccard), from 0 to 1; 0 where there are none."""
    words, other_words = step_words(steps), step_words(others)
    together = words | other_words
    return len(words & other_words) / len(together) if together else 0.0
