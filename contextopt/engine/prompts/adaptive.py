"""The adaptive budget: records enter while the next one is worth its tokens.

A record is worth them while its relevance is at least a share of the best record's. The share is higher where
the best record matches the question clearly, by all its parts and by its meaning, since little else is needed
then, and rises with each record. It is lower where records are long, since few of them fit, and for the
records of a topic, which are alike; and higher for records of no thread, which often answer alone.
Calibrated on dialogues with short and long messages and on meetings (benchmarks, section `recall`). A space's
strictness raises or lowers the share, as its question sets suggest.
"""

import math
from collections.abc import Sequence
from itertools import accumulate

from contextopt.engine.prompts.config import ContextConfig
from contextopt.engine.prompts.relevance import NOT_RELEVANT, Relevance, topic_weight, weighted_relevance
from contextopt.engine.prompts.scoring import MAX_PART, Scored
from contextopt.engine.prompts.selection import Query
from contextopt.engine.prompts.truncation import Cut

LOW_RELEVANCE = "low_relevance"
"""Reason for records that fit the budget and are not worth their tokens."""
USUAL_SHARE = 0.41
"""Share of the best record's relevance, for a match and a length that are usual in dialogues."""
USUAL_MATCH, PER_MATCH = 0.615, 0.4
"""Usual relevance of the best record, of the most that words, meaning and neighbours can give, and the effect
of more.
"""
PER_SIMILARITY = 0.5
"""Effect of a best record that is more similar to the question than usual, by its cosine."""
USUAL_TOKENS, PER_TOKENS = 45, -0.2
"""Usual tokens of a record, and the effect of longer ones, for each factor of e."""
PER_TOPIC = -0.28
"""Effect of a topic."""
PER_APART = 0.3
"""Effect of no neighbours: records of no thread speak for themselves, and often one of them answers."""
RISE = 0.7
"""How much more the last record that fits needs than the first, as a share of what the middle one needs."""
LEAST_SHARE, GREATEST_SHARE = 0.2, 0.8


def cut_by_worth(cut: Cut, query: Query, config: ContextConfig) -> Cut:
    """Drop the records from the first one on that is not worth its tokens. Pinned records stay.

    If no record is about the question, only pinned records stay. Otherwise the most relevant one stays, with
    all that recency and frequency rank above it.
    """
    worths = [relevance_of(scored, query, config) for scored in cut.kept]
    needed = least_worths(cut.kept, query, config)
    first = worths.index(max(worths)) if worths and query.is_relevant else -1
    for place, (scored, worth, least) in enumerate(zip(cut.kept, worths, needed, strict=True)):
        is_worth = query.is_relevant and worth >= least
        if place > first and not is_worth and not scored.record.pinned:
            return Cut(cut.kept[:place], cut.kept[place:] + cut.dropped, LOW_RELEVANCE)
    return cut


def relevance_of(scored: Scored, query: Query, config: ContextConfig) -> float:
    """Return the weighted parts that depend on the question, without recency and frequency."""
    return weighted_relevance(query.relevant.get(scored.record.id, NOT_RELEVANT), config)


def least_worths(records: Sequence[Scored], query: Query, config: ContextConfig) -> list[float]:
    """Return the relevance that each of these records needs to enter, at most that of the best."""
    if not records:
        return []
    best = max(relevance_of(scored, query, config) for scored in records)
    before = [0, *accumulate(scored.record.tokens for scored in records)]
    usual = best * _share(records, query, config, best)
    return [min(best, usual * (1 + RISE * (tokens / before[-1] - 0.5))) for tokens in before[:-1]]


def _share(records: Sequence[Scored], query: Query, config: ContextConfig, best: float) -> float:
    parts = [query.relevant.get(scored.record.id, NOT_RELEVANT) for scored in records]
    has_topic = any(part.topic > 0 for part in parts)
    has_neighbours = any(part.neighbour > 0 for part in parts)
    tokens = sum(scored.record.tokens for scored in records) / len(records)
    share = (
        USUAL_SHARE
        + PER_MATCH * (best / _full_match(parts, config) - USUAL_MATCH)
        + PER_SIMILARITY * _more_similar(parts, query.usual_similarity)
        + PER_TOKENS * math.log(tokens / USUAL_TOKENS)
        + (PER_TOPIC if has_topic else 0.0)
        + (0.0 if has_neighbours else PER_APART)
    )
    calibrated = min(GREATEST_SHARE, max(LEAST_SHARE, share))
    return min(1.0, max(0.0, calibrated + float(config.adaptive_strictness)))


def _more_similar(parts: Sequence[Relevance], usual: float | None) -> float:
    """Return by how much the most similar record's cosine exceeds the usual one; 0 if either is unknown."""
    similar = [part.semantic for part in parts if part.semantic is not None]
    return max(similar) / MAX_PART - usual if similar and usual is not None else 0.0


def _full_match(parts: Sequence[Relevance], config: ContextConfig) -> float:
    """Return the highest possible relevance: from words and meaning, and from neighbours and topic if any
    record has them.
    """
    weights = float(config.semantic_weight + config.lexical_weight) or 1.0
    most = weights * (2 if any(part.neighbour > 0 for part in parts) else 1)
    if any(part.topic > 0 for part in parts):
        most += float(topic_weight(config))
    return MAX_PART * most
