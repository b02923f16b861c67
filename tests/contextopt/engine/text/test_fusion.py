import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.text.fusion import ranks, reciprocal_rank, share_of_best, weighted
from contextopt.engine.validation import InvalidValue

SCORES = st.dictionaries(st.integers(1, 30), st.floats(0.01, 50), max_size=20)
COSINES = st.dictionaries(st.integers(1, 30), st.floats(0, 1), max_size=20)
ALPHAS = st.floats(0, 1)


@given(SCORES, COSINES)
def test_rows_of_only_one_ranking_are_kept(lexical, vector) -> None:
    for fused in (reciprocal_rank(lexical, vector), weighted(lexical, vector, alpha=0.5)):
        assert sorted(row.id for row in fused) == sorted(lexical.keys() | vector.keys())


@given(SCORES, COSINES, ALPHAS)
def test_relevance_is_from_0_to_1_and_falls(lexical, vector, alpha) -> None:
    for fused in (reciprocal_rank(lexical, vector), weighted(lexical, vector, alpha=alpha)):
        values = [row.relevance for row in fused]
        assert values == sorted(values, reverse=True)
        assert all(0 <= value <= 1 + 1e-12 for value in values)


@given(SCORES, COSINES, st.randoms())
def test_the_order_of_the_input_does_not_matter(lexical, vector, random) -> None:
    items = list(lexical.items())
    random.shuffle(items)
    assert reciprocal_rank(dict(items), vector) == reciprocal_rank(lexical, vector)


@given(SCORES, st.floats(0.1, 10))
def test_scales_do_not_matter_to_ranks(scores, factor) -> None:
    assert share_of_best(scores).keys() == scores.keys()
    assert sorted(ranks(scores)) == sorted(scores)


@given(SCORES)
def test_equal_scores_share_a_place(scores) -> None:
    places = ranks(scores)
    for one in scores:
        for other in scores:
            assert (scores[one] > scores[other]) == (places[one] < places[other])


@given(SCORES, COSINES)
def test_alpha_chooses_between_the_rankings(lexical, vector) -> None:
    by_words = weighted(lexical, vector, alpha=0)
    assert [row.score for row in by_words if row.id not in lexical] == [
        0.0 for row in by_words if row.id not in lexical
    ]
    by_meaning = weighted(lexical, vector, alpha=1)
    assert all(row.score == vector.get(row.id, 0.0) for row in by_meaning)


def test_first_in_both_is_1() -> None:
    assert reciprocal_rank({1: 5.0, 2: 1.0}, {1: 0.9})[0].relevance == 1
    assert weighted({1: 5.0}, {1: 1.0}, alpha=0.3)[0].relevance == 1


def test_the_first_of_one_ranking_is_not_lost_among_rows_of_both() -> None:
    middling = range(2, 12)
    lexical = {1: 9.0, **{row: 4.0 - row / 10 for row in middling}}
    vector = {1: 0.2, **{row: 0.5 + row / 100 for row in middling}}
    assert reciprocal_rank(lexical, vector)[0].id == 1
    only_by_meaning = {20: 0.9, **vector}
    assert [row.id for row in reciprocal_rank(lexical, only_by_meaning)].index(20) <= 5


def test_a_place_by_words_counts_more() -> None:
    assert [row.id for row in reciprocal_rank({1: 2.0, 2: 1.0}, {1: 0.1, 2: 0.9})] == [1, 2]
    words_first, meaning_first = reciprocal_rank({1: 2.0}, {2: 0.9})
    assert (words_first.score, meaning_first.score) == (0.5, pytest.approx(1 / 3))


def test_rows_of_several_tables() -> None:
    fused = reciprocal_rank({("memory", 1): 2.0, ("record", 1): 2.0}, {("record", 1): 0.5})
    assert [row.id for row in fused] == [("record", 1), ("memory", 1)]


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_alpha_out_of_range(alpha: float) -> None:
    with pytest.raises(InvalidValue, match="hybrid_alpha"):
        weighted({}, {}, alpha=alpha)
