"""Divide the total between system, history, context and response, and cut the ranking to its share.

With an adaptive budget, records enter while the next one is worth its tokens: while its relevance is at least
a share of the best record's. The share rises with each record. It is higher if the best record matches the
question clearly, by all its parts and by its meaning, since little else is needed then, and if records have
no neighbours, since one of them often answers alone. It is lower if records are long, since few of them fit,
above all in threads.

The records of a topic are similarly relevant, and what answers a question about it is said in one place. So
there, each record is rated by itself, above all by how many of those that fit are near it in its thread.

Without a question, an adaptive budget takes the records that say the most for their length.

Calibrated on dialogues with short and long messages and on meetings (benchmarks, section `recall`). A space's
strictness raises or lowers the share, as its question sets suggest.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, Self

import numpy as np

from contextopt.engine.details import Query
from contextopt.engine.ranking import (
    MAX_PART,
    NOT_RELEVANT,
    Scored,
    own_relevances,
    precedence,
    weighted_relevance,
)
from contextopt.engine.settings import ContextConfig
from contextopt.engine.text.lexical import distinct_terms
from contextopt.engine.validation import MAX_INT, BudgetExceeded, check_int
from contextopt.engine.values import WHOLE_SHARES, PartSizes, TokenAllocation


def allocate(
    config: ContextConfig,
    sizes: PartSizes = WHOLE_SHARES,
    *,
    stage: int | None = None,
    carried_tokens: int = 0,
) -> TokenAllocation:
    """Divide the total. The response always keeps its reservation.

    The excess of a size over its share is taken from the context first. The unused part of a share goes to
    the response, never to the context. `stage` overrides the config's stage. The context includes
    `carried_tokens` of blocks from earlier prompts; they raise the total unless it is set.

    Raises:
        BudgetExceeded: even an empty context leaves the response less than its reservation.
    """
    for name, size in sizes.to_json().items():
        check_int(name, size, 0, MAX_INT)
    stage = config.stage if stage is None else stage
    system = config.system_tokens if sizes.system is None else sizes.system
    history = config.history_tokens if sizes.history is None else sizes.history
    total = config.total_for(stage) + (carried_tokens if config.total_tokens is None else 0)
    reserved = (
        max(config.system_tokens, system)
        + max(config.history_tokens, history)
        + config.response_tokens
        + carried_tokens
    )
    context = carried_tokens + max(0, min(config.context_share(stage), total - reserved))
    response = total - system - history - context
    if response < config.response_tokens:
        raise BudgetExceeded(config.response_tokens - response, config.response_tokens)
    return TokenAllocation(total, system, history, context, response)


OVER_BUDGET = "over_budget"
OVER_RECORD_LIMIT = "over_record_limit"


class Dropped(NamedTuple):
    """A record that is not in the context, and why."""

    scored: Scored
    reason: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A ranking in two parts, each best first: `kept`, and `dropped` with the reason for each."""

    kept: tuple[Scored, ...]
    dropped: tuple[Dropped, ...] = ()

    @classmethod
    def of(cls, kept: Iterable[Scored], dropped: Iterable[Dropped]) -> Self:
        """Return both parts in rank order."""
        ranked = sorted(dropped, key=lambda one: precedence(one.scored), reverse=True)
        return cls(tuple(sorted(kept, key=precedence, reverse=True)), tuple(ranked))

    def without_last(self) -> "Cut":
        """Drop the last kept record, because the rendered text exceeded the budget."""
        *kept, last = self.kept
        return Cut.of(kept, [Dropped(last, OVER_BUDGET), *self.dropped])


def truncate(ranked: Sequence[Scored], budget_tokens: int, max_records: int | None) -> Cut:
    """Take records in order while the next one fits, and stop at the first that does not.

    A smaller one further down is never taken instead, so no dropped record outranks a kept one. Pinned
    records count like all others. `budget_tokens` is the room for records only.
    """
    used = 0
    for position, scored in enumerate(ranked):
        if position == max_records:
            return _cut_at(ranked, position, OVER_RECORD_LIMIT)
        used += scored.record.tokens
        if used > budget_tokens:
            return _cut_at(ranked, position, OVER_BUDGET)
    return Cut(tuple(ranked))


def _cut_at(ranked: Sequence[Scored], position: int, reason: str) -> Cut:
    return Cut(tuple(ranked[:position]), tuple([Dropped(each, reason) for each in ranked[position:]]))


def pack(ranked: Sequence[Scored], budget_tokens: int, max_records: int | None) -> Cut:
    """Take records in order like `truncate`, but pass over each one that does not fit and go on.

    So no dropped record outranks a kept one of its size or larger, unless the record limit is reached.
    """
    kept: list[Scored] = []
    dropped: list[Dropped] = []
    left = budget_tokens
    for position, scored in enumerate(ranked):
        if len(kept) == max_records:
            dropped += [Dropped(each, OVER_RECORD_LIMIT) for each in ranked[position:]]
            break
        if scored.record.tokens <= left:
            kept.append(scored)
            left -= scored.record.tokens
        else:
            dropped.append(Dropped(scored, OVER_BUDGET))
    return Cut(tuple(kept), tuple(dropped))


LOW_RELEVANCE = "low_relevance"
"""Reason for records that fit the budget but are not worth their tokens."""
CONSIDERED = 100
"""An adaptive budget without a question chooses among this many records, the best by score."""
LEAN_SHARE = 0.8
"""It takes at most this share of the tokens of the last 10 records.

Source: the goal of 20 to 30 % fewer tokens than stage 3, in LLM Context Optimization.
"""
RARITY_SCALE = 1_000_000
"""Rarities are rounded to this fraction, so that their sums are exact in any order."""


def cut_by_content(
    ranked: Sequence[Scored], budget_tokens: int, max_records: int | None, lean_tokens: int
) -> Cut:
    """Keep the records that say the most for their length and have a high score, within `lean_tokens`.

    They stay in rank order, and one that does not fit is passed over. Pinned records come first, and only the
    budget and the record limit bound them. One record stays even if it alone exceeds `lean_tokens`.
    """
    fitting = truncate(ranked, budget_tokens, max_records)
    if not fitting.dropped and sum(scored.record.tokens for scored in ranked) <= lean_tokens:
        return fitting
    considered = ranked[:CONSIDERED]
    lines = [scored.record.line for scored in considered]
    # By characters, so that the choice is the same for every model.
    worths = {
        scored.record.id: scored.score * content // len(line)
        for scored, line, content in zip(considered, lines, contents(lines), strict=True)
    }
    best_first = sorted(
        considered, key=lambda one: (one.record.pinned, worths[one.record.id], precedence(one)), reverse=True
    )
    kept: set[int] = set()
    used = 0
    for scored in best_first:
        limit = budget_tokens if scored.record.pinned or not kept else min(budget_tokens, lean_tokens)
        if len(kept) != max_records and used + scored.record.tokens <= limit:
            kept.add(scored.record.id)
            used += scored.record.tokens
    if not kept:
        return fitting
    return Cut(
        tuple(scored for scored in ranked if scored.record.id in kept),
        tuple(Dropped(scored, LOW_RELEVANCE) for scored in ranked if scored.record.id not in kept),
    )


def contents(lines: Sequence[str]) -> list[int]:
    """Return how much each line says among these: the sum of the rarities of its distinct words.

    The rarity of a word is the logarithm of all lines by those that have it.
    """
    words = [distinct_terms(line) for line in lines]
    lines_with = Counter(word for each in words for word in each)
    rarities = {
        word: round(RARITY_SCALE * math.log(len(lines) / count)) for word, count in lines_with.items()
    }
    return [sum(rarities[word] for word in each) for each in words]


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
    Records above the cut that did not fit remain over the budget.
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
            return _cut_below(cut, place)
    return cut


def _cut_below(cut: Cut, place: int) -> Cut:
    """Drop the kept records from this place on, with all that rank below the first of them."""
    limit = precedence(cut.kept[place])
    above = [one for one in cut.dropped if precedence(one.scored) > limit]
    below = [one.scored for one in cut.dropped[len(above) :]]
    irrelevant = [Dropped(scored, LOW_RELEVANCE) for scored in (*cut.kept[place:], *below)]
    return Cut.of(cut.kept[:place], [*above, *irrelevant])


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
    lone: list[Dropped] = []
    for place, (scored, worth) in enumerate(zip(cut.kept, worths, strict=True)):
        density = densities.get(scored.record.id)
        stays = place <= first or scored.record.id == closest or scored.record.pinned
        if stays or density is None:
            kept.append(scored)
            continue
        share = (worth / best + DENSITY_WEIGHT * density) / (1 + DENSITY_WEIGHT)
        if share >= least:
            kept.append(scored)
        else:
            lone.append(Dropped(scored, LOW_RELEVANCE))
    return Cut.of(kept, [*lone, *cut.dropped])


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
