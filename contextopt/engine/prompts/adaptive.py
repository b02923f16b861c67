"""The adaptive budget: records enter while the next one is worth its tokens.

A record is worth its tokens while its relevance is at least a share of the best record's. The share rises
with each record. It is higher if the best record matches the question clearly, by all its parts and by its
meaning, since little else is needed then, and if records have no neighbours, since one of them often answers
alone. It is lower if records are long, since few of them fit, above all in threads, and if there is a topic,
since its records are similarly relevant. Calibrated on dialogues with short and long messages and on meetings
(benchmarks, section `recall`). A space's strictness raises or lowers the share, as its question sets suggest.
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
"""Reason for records that fit the budget but are not worth their tokens."""
USUAL_SHARE = 0.41
"""Share of the best record's relevance, for the usual match and length in dialogues."""
USUAL_MATCH, PER_MATCH = 0.615, 0.4
"""Usual relevance of the best record, as a share of the highest possible, and the effect of a higher one."""
PER_SIMILARITY = 0.5
"""Effect of a higher cosine than usual of the most similar record."""
USUAL_TOKENS, PER_LENGTH = 45, -0.2
"""Usual tokens of a record, and the effect of each factor of e above it."""
PER_LONG_TURN = -0.13
"""Further effect of each factor of e above it if records have neighbours, since long turns answer in part."""
PER_TOPIC = -0.28
"""Effect of a topic."""
PER_APART = 0.3
"""Effect of records without neighbours, one of which often answers alone."""
RISE = 0.7
"""How much more the last record that fits needs than the first, relative to what the middle one needs."""
LEAST_SHARE, GREATEST_SHARE = 0.2, 0.8


def cut_by_worth(cut: Cut, query: Query, config: ContextConfig) -> Cut:
    """Cut the ranking at the first unpinned record that is not worth its tokens.

    If no record is about the question, only pinned records stay. If some are, the most relevant one stays,
    with all that are ranked above it by recency and frequency.
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
    """Return the weighted sum of the parts that depend on the question, without recency and frequency."""
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
    longer = math.log(sum(scored.record.tokens for scored in records) / len(records) / USUAL_TOKENS)
    share = (
        USUAL_SHARE
        + PER_MATCH * (best / _full_match(parts, config) - USUAL_MATCH)
        + PER_SIMILARITY * _more_similar(parts, query.usual_similarity)
        + PER_LENGTH * longer
        + (PER_TOPIC if has_topic else 0.0)
        + (PER_LONG_TURN * max(0.0, longer) if has_neighbours else PER_APART)
    )
    calibrated = min(GREATEST_SHARE, max(LEAST_SHARE, share))
    return min(1.0, max(0.0, calibrated + float(config.adaptive_strictness)))


def _more_similar(parts: Sequence[Relevance], usual: float | None) -> float:
    """Return by how much the highest cosine exceeds the usual one; 0 if either is unknown."""
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
