"""Intervals and differences of shares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.kit.charts.tiles import COMPARABLE, Proportion

counts = st.integers(0, 5_000).flatmap(lambda count: st.tuples(st.integers(0, count), st.just(count)))


# Worked examples of R's prop.test(x, n, correct=FALSE).
@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [(9, 10, 0.5958, 0.9821), (0, 20, 0.0, 0.1611), (20, 20, 0.8389, 1.0), (50, 100, 0.4038, 0.5962)],
)
def test_the_interval_is_wilsons(hits: int, count: int, low: float, high: float) -> None:
    assert Proportion(hits, count).interval == pytest.approx((low, high), abs=1e-4)


@given(counts)
def test_the_share_lies_in_its_interval(counted: tuple[int, int]) -> None:
    share = Proportion(*counted)
    low, high = share.interval
    assert 0 <= low <= high <= 1
    assert share.rate is None if share.count == 0 else low - 1e-9 <= share.rate <= high + 1e-9
    assert share.margin == pytest.approx((high - low) / 2)


@pytest.mark.parametrize(
    ("now", "before", "is_below"),
    [
        (Proportion(80, 100), Proportion(95, 100), True),
        (Proportion(90, 100), Proportion(95, 100), False),
        (Proportion(95, 100), Proportion(80, 100), False),
        # Too few to say, whatever the difference.
        (Proportion(0, COMPARABLE - 1), Proportion(100, 100), False),
        (Proportion(0, COMPARABLE), Proportion(100, 100), True),
        (Proportion(0, 100), Proportion(0, 100), False),
        (Proportion(100, 100), Proportion(100, 100), False),
        (Proportion(), Proportion(), False),
    ],
)
def test_only_a_difference_beyond_chance_is_below(
    now: Proportion, before: Proportion, is_below: bool
) -> None:
    assert now.is_below(before) is is_below


@given(counts, counts)
def test_adding_adds_both(one: tuple[int, int], other: tuple[int, int]) -> None:
    both = Proportion(*one) + Proportion(*other)
    assert (both.hits, both.count) == (one[0] + other[0], one[1] + other[1])
