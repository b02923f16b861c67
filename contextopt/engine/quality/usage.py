"""Estimates which records of a context an answer used, from the words that they share.

A word counts if the answer and the record have it and the question does not. Rare words, numbers and names
count more. Long records share more words by chance, so their sums are damped. This is an estimate: an answer
may use a record in other words, or share words with one that it did not use.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import log

from contextopt.engine.prompts.duplicates import numbers_in
from contextopt.engine.quality.evidence import content_words

LEAST_WEIGHT = 2.5
"""The least sum of the weights of the shared words for a record that counts as used."""
LEAST_SHARE = 0.75
"""The least share of the best record's damped sum. Both limits and the damping were measured on dialogues."""
DAMPING = 0.75
"""The power of a record's number of distinct words that its sum is divided by."""


@dataclass(frozen=True, slots=True)
class Use:
    """A record's part in an answer: the shared words, rarest first, and their weight, 0 or more."""

    weight: float
    words: tuple[str, ...]
    is_used: bool


def estimate_use[Id](answer: str, question: str, records: Mapping[Id, str]) -> dict[Id, Use]:
    """Return each record's estimated part in the answer. `records` maps ids to the texts in the context."""
    wanted = _marks(answer) - _marks(question)
    held = {record_id: _marks(text) for record_id, text in records.items()}
    shared = {record_id: wanted & marks for record_id, marks in held.items()}
    holders = Counter(word for words in shared.values() for word in words)
    weights = {word: log(1 + len(records) / count) for word, count in holders.items()}
    sums = {record_id: sum(weights[word] for word in words) for record_id, words in shared.items()}
    damped = {
        record_id: weight / len(held[record_id]) ** DAMPING if weight >= LEAST_WEIGHT else 0.0
        for record_id, weight in sums.items()
    }
    least = LEAST_SHARE * max(damped.values(), default=0.0)
    return {
        record_id: Use(
            sums[record_id],
            tuple(sorted(words, key=lambda word: (-weights[word], word))),
            damped[record_id] > 0 and damped[record_id] >= least,
        )
        for record_id, words in shared.items()
    }


def _marks(text: str) -> frozenset[str]:
    return content_words(text) | numbers_in(text)
