"""The weight of a question in a score."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.ranking import (
    SCORE_SCALE,
    Match,
    Relevance,
    own_relevances,
    rank_by_query,
    rate_neighbours,
    relevances,
)
from contextopt.engine.settings import ContextConfig
from contextopt.engine.values import RecordSummary
from tests.contextopt.engine.factories import NOW, make_record
from tests.contextopt.engine.strategies import weights

CONFIG = ContextConfig(stage=5, window_days=None)


def test_parts_run_from_0_to_10() -> None:
    found = relevances({1: Match(4.0, 0.5), 2: Match(8.0, -0.2), 3: Match(0.0, None)})
    assert found == {
        1: Relevance(semantic=5.0, lexical=5.0),
        2: Relevance(semantic=0.0, lexical=10.0),
        3: Relevance(semantic=None, lexical=0.0),
    }


def test_no_words_at_all() -> None:
    assert relevances({1: Match(0.0, None)}) == {1: Relevance()}
    assert relevances({}) == {}


def score_for(record: RecordSummary, relevance: Relevance, config: ContextConfig = CONFIG) -> int:
    [scored] = rank_by_query([record], {record.id: relevance}, NOW, config)
    return scored.score


def test_the_score_is_the_weighted_sum() -> None:
    record = make_record(1, days_old=15, view_count=4)
    relevance = Relevance(semantic=8.0, lexical=5.0, neighbour=2.0, date=7.0, who=10.0)
    value = score_for(record, relevance)
    weighted = 0.7 * 5 + 0.3 * 4 + 9 * 8 + 4 * 5 + 13 * 2 + 3 * 7 + 4 * 10
    assert value / SCORE_SCALE == pytest.approx(weighted)


LONG = dict.fromkeys(range(1, 31), 10**9)
"""Records so long that their surroundings do not count."""
UNLIMITED = CONFIG.replace(question_record_tokens=None)


def test_a_match_counts_less_with_each_step() -> None:
    hits = {5: Relevance(semantic=10.0, lexical=10.0)}
    rated = rate_neighbours(hits, [list(range(1, 12))], UNLIMITED, LONG)
    assert [rated.get(at, Relevance()).neighbour for at in range(1, 12)] == pytest.approx(
        [2.048, 2.56, 3.2, 4.0, 0.0, 4.0, 3.2, 2.56, 2.048, 1.6384, 0.0], abs=1e-4
    )
    assert rated[5].lexical == 10.0


def test_the_better_side_counts_and_never_more_than_the_whole() -> None:
    hits = {at: Relevance(semantic=10.0, lexical=10.0) for at in range(9)}
    rated = rate_neighbours(hits, [list(range(9))], CONFIG.replace(neighbour_share=Decimal(1)), {})
    assert {parts.neighbour for parts in rated.values()} == {10.0}


def test_a_record_longer_than_the_limit_takes_less_from_a_match() -> None:
    hits = {1: Relevance(semantic=10.0, lexical=10.0)}
    sizes = {1: 10**9, 2: 10**9, 3: 2 * 10**9}
    config = CONFIG.replace(question_record_tokens=200_000)
    rated = rate_neighbours(hits, [[2, 1, 3]], config, sizes)
    assert rated[2].neighbour == pytest.approx(2 * rated[3].neighbour, abs=1e-3)
    assert rate_neighbours(hits, [[1, 2]], UNLIMITED, sizes)[2].neighbour == pytest.approx(4.0, abs=1e-4)


def test_the_shorter_a_record_the_more_its_surroundings_count() -> None:
    hits = {at: Relevance(semantic=6.0, lexical=4.0) for at in range(1, 10) if at != 5}
    config = CONFIG.replace(neighbour_share=Decimal("0.1"))
    parts = []
    for size in (5, 30, 300):
        sizes = dict.fromkeys(range(1, 10), 20) | {5: size}
        parts.append(rate_neighbours(hits, [list(range(1, 10))], config, sizes)[5].neighbour)
    assert parts == sorted(parts, reverse=True)
    assert parts[0] > 1.5 * parts[2]


def test_surroundings_end_after_a_hundred_tokens() -> None:
    hits = {1: Relevance(semantic=10.0, lexical=10.0)}
    near = rate_neighbours(hits, [[1, 2, 3]], UNLIMITED, {1: 50, 2: 60, 3: 1})
    far = rate_neighbours(hits, [[1, 2, 3]], UNLIMITED, {1: 50, 2: 200, 3: 1})
    assert near[3].neighbour > 0.5 > far[3].neighbour


def test_the_passage_with_the_most_words_counts_fully() -> None:
    hits = {1: Relevance(lexical=10.0), 2: Relevance(lexical=10.0), 8: Relevance(lexical=10.0)}
    words_only = UNLIMITED.replace(semantic_weight=Decimal(0), neighbour_share=Decimal("0.1"))
    rated = rate_neighbours(hits, [[1, 2, 3], [8, 9, 10]], words_only, {3: 1, 10: 1})
    # Records without text are rated by their surroundings alone, whose weight is five.
    assert rated[3].neighbour == pytest.approx(0.1 * 5 * 10, rel=0.05)
    assert rated[10].neighbour == pytest.approx(0.1 * 5 * 5, rel=0.05)


def test_without_a_share_nothing_is_lent() -> None:
    hits = {1: Relevance(semantic=10.0)}
    assert rate_neighbours(hits, [[1, 2]], CONFIG.replace(neighbour_share=Decimal(0)), {}) == hits


def test_without_weights_nothing_is_relevant() -> None:
    config = CONFIG.replace(semantic_weight=Decimal(0), lexical_weight=Decimal(0))
    assert own_relevances({1: Relevance(10.0, 10.0)}, config) == {1: 0.0}


def test_ties_go_to_the_newer_then_to_the_higher_id() -> None:
    config = CONFIG.replace(recency_weight=Decimal(0))
    records = [make_record(1, days_old=40), make_record(2, days_old=40), make_record(3, days_old=50)]
    same = {record.id: Relevance(lexical=3.0) for record in records}
    assert [scored.record.id for scored in rank_by_query(records, same, NOW, config)] == [2, 1, 3]


def test_pinned_records_go_first() -> None:
    records = [make_record(1, days_old=90, pinned=True), make_record(2)]
    ranked = rank_by_query(records, {2: Relevance(10.0, 10.0)}, NOW, CONFIG)
    assert [scored.record.id for scored in ranked] == [1, 2]


part = st.floats(0, 10)
parts = st.builds(Relevance, st.none() | part, *[part] * 5)


@given(parts, parts, weights, weights, st.integers(0, 60))
def test_more_relevance_never_ranks_lower(
    some: Relevance, extra: Relevance, semantic: Decimal, lexical: Decimal, days: int
) -> None:
    config = CONFIG.replace(semantic_weight=semantic, lexical_weight=lexical)
    record = make_record(1, days_old=days)
    more = Relevance(*(max(a or 0.0, b or 0.0) for a, b in zip(some, extra, strict=True)))
    assert score_for(record, more, config) >= score_for(record, some, config)
    assert score_for(record, Relevance(*[10.0] * 6), config) < 2**63


@given(st.dictionaries(st.integers(1, 30), parts), st.permutations(range(1, 31)))
def test_lending_does_not_depend_on_order(hits: dict[int, Relevance], thread: list[int]) -> None:
    pairs = list(hits.items())
    forward = rate_neighbours(dict(pairs), [thread], CONFIG, {})
    assert forward == rate_neighbours(dict(reversed(pairs)), [thread], CONFIG, {})
    backward = rate_neighbours(dict(pairs), [thread[::-1]], CONFIG, {})
    assert forward.keys() == backward.keys()
    assert all(found.neighbour == pytest.approx(backward[key].neighbour) for key, found in forward.items())
    assert all(0 <= found.neighbour <= 10 for found in forward.values())


def test_a_date_after_now_counts_as_age_zero() -> None:
    ahead = make_record(1).date + timedelta(hours=5)
    assert score_for(make_record(1, date=ahead), Relevance()) == score_for(make_record(1), Relevance())
