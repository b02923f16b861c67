"""The cost of a prompt after the provider's cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.placement.choice import CachePrices, Split
from contextopt.engine.validation import InvalidValue

PRICES = CachePrices(read=0.1, write=1.25)
sizes = st.integers(0, 50_000)


def test_a_repeated_beginning_is_read_and_the_rest_is_written() -> None:
    split = PRICES.split(3_000, 2_000)
    assert split == Split(cached=2_000, cacheable=1_000, rest=0)
    assert PRICES.cost_of(split) == pytest.approx(2_000 * 0.1 + 1_000 * 1.25)


def test_nothing_is_cached_below_the_minimum() -> None:
    assert PRICES.split(3_000, 1_023) == Split(0, 3_000, 0)
    assert PRICES.split(1_023, 1_000) == Split(0, 0, 1_023)
    assert PRICES.cost_of(Split(0, 0, 1_023)) == 1_023


def test_nothing_is_found_past_the_lifetime() -> None:
    assert PRICES.split(3_000, 2_000, idle_seconds=300).cached == 2_000
    assert PRICES.split(3_000, 2_000, idle_seconds=301) == Split(0, 3_000, 0)


@given(sizes, sizes, st.floats(0, 1_000))
def test_the_parts_add_up(tokens: int, shared: int, idle: float) -> None:
    split = PRICES.split(tokens, shared, idle_seconds=idle)
    assert split.tokens == tokens
    assert split.cached <= min(tokens, shared)


@pytest.mark.parametrize("field", ["read", "write", "minimum_tokens", "lifetime_seconds"])
def test_no_price_is_negative(field: str) -> None:
    with pytest.raises(InvalidValue, match=field):
        CachePrices(**{field: -1})
