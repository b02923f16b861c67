"""The adaptive budget: records enter while the next one is worth its tokens.

A record is worth its tokens while its relevance is at least a share of the best record's. The share rises
with each record. It is higher if the best record matches the question clearly, by all its parts and by its
meaning, since little else is needed then, and if records have no neighbours, since one of them often answers
alone. It is lower if records are long, since few of them fit, above all in threads.

The records of a topic are similarly relevant, and what answers a question about it is said in one place. So
there, each record is rated by itself, above all by how many of those that fit are near it in its thread.

Calibrated on dialogues with short and long messages and on meetings (benchmarks, section `recall`). A space's
strictness raises or lowers the share, as its question sets suggest.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from contextopt.engine.budget import Cut
from contextopt.engine.details import Query
from contextopt.engine.ranking import MAX_PART, Scored
from contextopt.engine.relevance import NOT_RELEVANT, own_relevances, weighted_relevance
from contextopt.engine.settings import ContextConfig

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
PER_APART = 0.3
"""Effect of records without neighbours, one of which often answers alone."""
RISE = 0.7
"""How much more the last record that fits needs than the first, relative to what the middle one needs."""
LEAST_SHARE, GREATEST_SHARE = 0.2, 0.8
TOPIC_SHARE = 0.41
"""Share that a record of a topic needs, of the highest relevance and the greatest density."""
TOPIC_DEVIATION = 10
"""Kept records count for the density of those around them by a normal distribution with this deviation."""
DENSITY_WEIGHT = 5
"""Weight of the density relative to the relevance."""


def cut_by_worth(cut: Cut, query: Query, config: ContextConfig) -> Cut:
    """Cut the ranking at the first unpinned record that is not worth its tokens.

    If no record is about the question, only pinned records stay. If some are, the most relevant one stays,
    with all that are ranked above it by recency and frequency. Records of a topic are left out one by one.
    """
    worths = [relevance_of(scored, query, config) for scored in cut.kept]
    densities = _densities(cut.kept, query)
    if query.is_relevant and densities:
        return _without_lone(cut, worths, densities, query, config)
    needed = least_worths(cut.kept, query, config)
    first = worths.index(max(worths)) if worths and query.is_relevant else -1
    for place, (scored, worth, least) in enumerate(zip(cut.kept, worths, needed, strict=True)):
        is_worth = query.is_relevant and worth >= least
        if place > first and not is_worth and not scored.record.pinned:
            return Cut(cut.kept[:place], cut.kept[place:] + cut.dropped, LOW_RELEVANCE)
    return cut


def _without_lone(
    cut: Cut, worths: Sequence[float], densities: Mapping[int, float], query: Query, config: ContextConfig
) -> Cut:
    """Leave out records of topics that are not relevant enough for how few of the kept are near them.

    The one that matches best by itself stays, too.
    """
    own = own_relevances(query.relevant, config)
    closest = max((scored.record.id for scored in cut.kept), key=lambda record_id: own.get(record_id, 0.0))
    first = worths.index(max(worths))
    best = worths[first] or 1.0
    least = min(1.0, max(0.0, TOPIC_SHARE + float(config.adaptive_strictness)))
    kept: list[Scored] = []
    lone: list[Scored] = []
    for place, (scored, worth) in enumerate(zip(cut.kept, worths, strict=True)):
        density = densities.get(scored.record.id)
        stays = place <= first or scored.record.id == closest or scored.record.pinned
        if stays or density is None:
            kept.append(scored)
            continue
        share = (worth / best + DENSITY_WEIGHT * density) / (1 + DENSITY_WEIGHT)
        (kept if share >= least else lone).append(scored)
    return Cut(tuple(kept), (*lone, *cut.dropped), LOW_RELEVANCE) if lone else cut


def _densities(records: Sequence[Scored], query: Query) -> dict[int, float]:
    """Return by id, for the records of topics, how many of them are near each, as a share of the most."""
    places = sorted(
        (detail.thread, detail.position, scored.record.id)
        for scored in records
        if query.relevant.get(scored.record.id, NOT_RELEVANT).topic > 0
        and (detail := query.details.get(scored.record.id)) is not None
        and detail.position is not None
    )
    threads = np.array([thread for thread, _, _ in places])
    positions = np.array([position for _, position, _ in places], float)
    near = np.zeros(len(places))
    for step in range(1, min(len(places), 3 * TOPIC_DEVIATION)):
        apart = (positions[step:] - positions[:-step]) / TOPIC_DEVIATION
        weights = np.exp(-0.5 * apart**2) * (threads[step:] == threads[:-step])
        near[step:] += weights
        near[:-step] += weights
    shares = near / (near.max(initial=0.0) or 1.0)
    return dict(zip((record_id for _, _, record_id in places), shares.tolist(), strict=True))


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
    has_neighbours = any(part.neighbour > 0 for part in parts)
    longer = math.log(sum(scored.record.tokens for scored in records) / len(records) / USUAL_TOKENS)
    weights = float(config.semantic_weight + config.lexical_weight) or 1.0
    full_match = MAX_PART * weights * (2 if has_neighbours else 1)
    similar, usual = [part.semantic for part in parts if part.semantic is not None], query.usual_similarity
    more_similar = max(similar) / MAX_PART - usual if similar and usual is not None else 0.0
    share = (
        USUAL_SHARE
        + PER_MATCH * (best / full_match - USUAL_MATCH)
        + PER_SIMILARITY * more_similar
        + PER_LENGTH * longer
        + (PER_LONG_TURN * max(0.0, longer) if has_neighbours else PER_APART)
    )
    calibrated = min(GREATEST_SHARE, max(LEAST_SHARE, share))
    return min(1.0, max(0.0, calibrated + float(config.adaptive_strictness)))
