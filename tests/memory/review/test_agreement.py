"""Krippendorff's alpha: the published examples, and properties that hold for any data."""

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.review.verdicts import krippendorff_alpha

# K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011): sections A, B, and C with D.
BINARY = ("0100000010", "1110010000")
NOMINAL = ("aabbdcccedda", "babbbcccedd" + "d")
FOUR_OBSERVERS = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")


def alpha_of(units: Iterable[Sequence[str]]) -> float | None:
    return krippendorff_alpha(Counter(map(tuple, units)))


def alpha(*judges: str) -> float | None:
    return alpha_of([value for value in unit if value != "."] for unit in zip(*judges, strict=True))


@pytest.mark.parametrize(
    ("judges", "published"), [(BINARY, 0.095), (NOMINAL, 0.692), (FOUR_OBSERVERS, 0.743)]
)
def test_published_examples(judges: tuple[str, ...], published: float) -> None:
    assert alpha(*judges) == pytest.approx(published, abs=0.0005)


def test_extremes() -> None:
    assert alpha("abab", "abab") == 1
    assert alpha("ab", "ba") == pytest.approx(-0.5)
    assert alpha("aaaa", "aaaa") is None
    assert krippendorff_alpha({}) is None
    assert alpha_of([["a"], ["b"]]) is None


UNITS = st.lists(st.lists(st.sampled_from("abc"), max_size=3), max_size=30)


@given(UNITS, st.randoms(use_true_random=False))
def test_order_does_not_matter(units: list[list[str]], random) -> None:
    shuffled = [random.sample(unit, len(unit)) for unit in units]
    random.shuffle(shuffled)
    first, second = alpha_of(units), alpha_of(shuffled)
    assert first == (None if second is None else pytest.approx(second))


@given(UNITS)
def test_it_is_at_most_one_and_one_only_without_disagreement(units: list[list[str]]) -> None:
    found = alpha_of(units)
    if found is None:
        return
    assert found <= 1
    assert (found == 1) == all(len(set(unit)) < 2 for unit in units)
