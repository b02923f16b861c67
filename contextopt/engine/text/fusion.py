"""Combine a ranking by words and one by meaning, keeping results that only one of them found."""

from collections.abc import Mapping
from typing import NamedTuple

from contextopt.engine.validation import InvalidValue

RRF_K = 2
"""Dampens the difference between the first ranks. Cormack, Clarke and Büttcher, SIGIR 2009, use 60 for many
rankings. With two rankings, 60 would place good results of one below all results of both.
"""
WORDS_WEIGHT = 1.5
"""Weight of a rank by words relative to one by meaning. Both constants are measured on known-item searches
and on questions to dialogues, with two models (benchmarks, section finding).
"""


class Fused[Key](NamedTuple):
    """A row's combined rank. `score` orders the rows; `relevance` scales it from 0 to 1, where 1 is first in
    both.

    Ranks count from 1 and are None if the ranking does not contain the row.
    """

    id: Key
    score: float
    relevance: float
    lexical_rank: int | None
    vector_rank: int | None


def reciprocal_rank[Key: (int, tuple[str, int])](
    lexical: Mapping[Key, float], vector: Mapping[Key, float]
) -> list[Fused[Key]]:
    """Fuse by rank, so that the scales do not matter: words give 1.5 / (2 + rank), meaning 1 / (2 + rank).

    Both map ids to scores, higher is better; equal scores share a rank. The result is ordered by score, then
    by lexical score, cosine and id, independent of the order of the mappings.
    """
    by_words, by_meaning = ranks(lexical), ranks(vector)
    best = _worth(1, WORDS_WEIGHT) + _worth(1, 1.0)
    fused = []
    for row_id in by_words.keys() | by_meaning.keys():
        word_rank, vector_rank = by_words.get(row_id), by_meaning.get(row_id)
        score = _worth(word_rank, WORDS_WEIGHT) + _worth(vector_rank, 1.0)
        fused.append(Fused(row_id, score, score / best, word_rank, vector_rank))
    return _ordered(fused, lexical, vector)


def _worth(rank: int | None, weight: float) -> float:
    return 0.0 if rank is None else weight / (RRF_K + rank)


def weighted[Key: (int, tuple[str, int])](
    lexical: Mapping[Key, float], vector: Mapping[Key, float], *, alpha: float
) -> list[Fused[Key]]:
    """Fuse by scores: `alpha` times the cosine plus (1 − `alpha`) times the lexical score relative to the
    best.

    Raises:
        InvalidValue: alpha is not from 0 to 1.
    """
    if not 0 <= alpha <= 1:
        raise InvalidValue("hybrid_alpha", "must be from 0 to 1")
    by_words, by_meaning = ranks(lexical), ranks(vector)
    shares = share_of_best(lexical)
    fused = []
    for row_id in by_words.keys() | by_meaning.keys():
        score = alpha * vector.get(row_id, 0.0) + (1 - alpha) * shares.get(row_id, 0.0)
        fused.append(Fused(row_id, score, score, by_words.get(row_id), by_meaning.get(row_id)))
    return _ordered(fused, lexical, vector)


def ranks[Key](scores: Mapping[Key, float]) -> dict[Key, int]:
    """Return each row's rank from 1. Equal scores share the better rank."""
    places: dict[Key, int] = {}
    last_score, place = float("inf"), 0
    for position, (row_id, score) in enumerate(sorted(scores.items(), key=lambda item: -item[1]), start=1):
        if score < last_score:
            last_score, place = score, position
        places[row_id] = place
    return places


def share_of_best[Key](scores: Mapping[Key, float]) -> dict[Key, float]:
    """Return each score divided by the highest, from 0 to 1; all 0 if the highest is not above 0."""
    best = max(scores.values(), default=0.0)
    return {row_id: max(0.0, score) / best if best > 0 else 0.0 for row_id, score in scores.items()}


def _ordered[Key: (int, tuple[str, int])](
    fused: list[Fused[Key]], lexical: Mapping[Key, float], vector: Mapping[Key, float]
) -> list[Fused[Key]]:
    newest_first = sorted(fused, key=lambda row: row.id, reverse=True)
    return sorted(
        newest_first, key=lambda row: (-row.score, -lexical.get(row.id, 0.0), -vector.get(row.id, 0.0))
    )
