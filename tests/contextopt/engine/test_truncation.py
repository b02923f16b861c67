import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.budget import Dropped, pack, truncate
from contextopt.engine.ranking import Scored
from tests.contextopt.engine.factories import make_record


def ranked(*tokens: int) -> list[Scored]:
    return [Scored(make_record(id, tokens=size), 100 - id) for id, size in enumerate(tokens, start=1)]


@pytest.mark.parametrize(
    ("tokens", "budget", "limit", "kept", "reason"),
    [
        ((10, 10, 10), 30, 20, 3, ""),
        ((10, 10, 10), 29, 20, 2, "over_budget"),
        ((10, 10, 10), 30, 2, 2, "over_record_limit"),
        ((10, 50, 1), 20, 20, 1, "over_budget"),
        ((50, 1, 1), 20, 20, 0, "over_budget"),
        ((10, 10, 10), 20, 2, 2, "over_record_limit"),
        ((10,), -5, None, 0, "over_budget"),
        ((1,) * 30, 100, None, 30, ""),
        ((), 0, 20, 0, ""),
        ((1,), 5, 0, 0, "over_record_limit"),
    ],
)
def test_prefix_that_fits(
    tokens: tuple[int, ...], budget: int, limit: int | None, kept: int, reason: str
) -> None:
    ranking = ranked(*tokens)
    cut = truncate(ranking, budget, limit)
    assert list(cut.kept) == ranking[:kept]
    assert list(cut.dropped) == [Dropped(scored, reason) for scored in ranking[kept:]]


def test_pinned_records_count_like_all_others() -> None:
    ranking = [Scored(make_record(id, tokens=10, pinned=True), 0) for id in (1, 2, 3)]
    assert len(truncate(ranking, 25, 20).kept) == 2
    assert len(truncate(ranking, 99, 1).kept) == 1


def test_without_last() -> None:
    ranking = ranked(1, 1, 1)
    cut = truncate(ranking, 9, 2).without_last()
    assert list(cut.kept) == ranking[:1]
    assert list(cut.dropped) == [
        Dropped(ranking[1], "over_budget"),
        Dropped(ranking[2], "over_record_limit"),
    ]


@pytest.mark.parametrize(
    ("tokens", "budget", "limit", "kept", "reasons"),
    [
        ((10, 10, 10), 30, None, [1, 2, 3], []),
        ((10, 50, 1), 20, None, [1, 3], ["over_budget"]),
        ((50, 20, 1), 20, None, [2], ["over_budget", "over_budget"]),
        ((10, 50, 1, 1), 20, 2, [1, 3], ["over_budget", "over_record_limit"]),
        ((1, 1), 20, 0, [], ["over_record_limit"] * 2),
        ((10, 5), -5, None, [], ["over_budget"] * 2),
        ((), 0, None, [], []),
    ],
)
def test_packing_passes_over_what_does_not_fit(
    tokens: tuple[int, ...], budget: int, limit: int | None, kept: list[int], reasons: list[str]
) -> None:
    cut = pack(ranked(*tokens), budget, limit)
    assert [scored.record.id for scored in cut.kept] == kept
    assert [one.reason for one in cut.dropped] == reasons


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(0, 400), st.none() | st.integers(0, 20))
def test_packing_drops_nothing_for_a_lower_one_of_its_size_or_larger(
    tokens: list[int], budget: int, limit: int | None
) -> None:
    ranking = ranked(*tokens)
    cut = pack(ranking, budget, limit)
    assert sum(scored.record.tokens for scored in cut.kept) <= max(0, budget)
    assert limit is None or len(cut.kept) <= limit
    assert {*cut.kept, *(one.scored for one in cut.dropped)} == set(ranking)
    # All that a cut at the first that does not fit keeps is kept, too.
    assert set(truncate(ranking, budget, limit).kept) <= set(cut.kept)
    for scored, _ in cut.dropped:
        lower = [kept.record.tokens for kept in cut.kept if kept.score < scored.score]
        assert all(size < scored.record.tokens for size in lower)
