import heapq
from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.agents.errorlogs import rank_with_repeats
from tests.speed import within

SHARE = 0.45
SPARED = 1_000.0
# Values that become equal when they fall: 4.5 is 10 × 0.45. The smallest fall to zero.
VALUES = (10.0, 4.5, 2.025, 10 * SHARE**3, 7.0, 7.0 * SHARE, 1.0, 1e-320, 0.0, 1_000.0, 1_010.0)


def rank_one_by_one(values: Mapping[int, float], kinds: Sequence[str]) -> Iterator[int]:
    """Return the same order by a plain algorithm: each key falls by itself when its turn comes."""
    seen: dict[str, int] = {}
    heap = [(-value, key, 0) for key, value in values.items()]
    heapq.heapify(heap)
    while heap:
        worth, key, counted = heapq.heappop(heap)
        times = seen.get(kinds[key], 0)
        if times > counted and -worth < SPARED:
            heapq.heappush(heap, (worth * SHARE ** (times - counted), key, times))
            continue
        seen[kinds[key]] = times + 1
        yield key


@given(lines=st.lists(st.tuples(st.sampled_from(VALUES), st.sampled_from("aaab")), max_size=80))
def test_the_order_is_that_of_each_key_by_itself(lines: list[tuple[float, str]]) -> None:
    values = {key: value for key, (value, _) in enumerate(lines)}
    kinds = [kind for _, kind in lines]
    assert list(rank_with_repeats(values, kinds.__getitem__, SHARE, SPARED)) == list(
        rank_one_by_one(values, kinds)
    )


def test_a_repeat_goes_behind_what_is_new() -> None:
    values = {0: 10.0, 1: 10.0, 2: 5.0, 3: 4.0, 4: 1_000.0}
    assert list(rank_with_repeats(values, "aabcc".__getitem__, SHARE, SPARED)) == [4, 0, 2, 1, 3]


@pytest.mark.parametrize("others", [0, 300])
def test_many_of_one_kind_are_quick(others: int) -> None:
    size = 4_000
    values = {key: 10.0 + key % 3 for key in range(size)} | {size + key: 1.0 for key in range(others)}
    asked: list[int] = []

    def kind_of(key: int) -> str:
        asked.append(key)
        return "same" if key < size else str(key)

    # A tenth of a second; ten seconds and more when every key falls by itself.
    with within(2):
        assert len(list(rank_with_repeats(values, kind_of, SHARE, SPARED))) == size + others
    assert len(asked) == size + others
