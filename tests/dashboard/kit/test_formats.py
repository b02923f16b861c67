"""Numbers formatted for people."""

from math import inf

import pytest

from dashboard.kit.formats import (
    action_words,
    actor_words,
    approximate,
    decimals,
    fewer_words,
    percent,
    ratio,
    whole,
)
from dashboard.templatetags.tags import coloured_cost


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (0.15, "15 % fewer"),
        (-0.5, "50 % more"),
        (-0.002, "about the same"),
        (0.0, "about the same"),
        (None, "–"),
    ],
)
def test_a_share_saved_in_words(rate: float | None, words: str) -> None:
    assert fewer_words(rate) == words


@pytest.mark.parametrize(
    ("saved", "html"),
    [
        (1_200, '<span class="good">1,200 tokens fewer</span>'),
        (-5, '<span class="bad">5 tokens more</span>'),
        (0, "no difference"),
    ],
)
def test_only_a_difference_has_a_colour(saved: int, html: str) -> None:
    assert coloured_cost(saved) == html


@pytest.mark.parametrize(
    ("value", "words"),
    [(387.4, "≈ 390"), (12_345.0, "≈ 12,000"), (32.1, "≈ 32"), (0.0, "≈ 0"), (99.6, "≈ 100")],
)
def test_a_figure_of_a_histogram_claims_two_digits(value: float, words: str) -> None:
    assert approximate(value, 0.0, inf) == words


def test_a_figure_is_not_rounded_beyond_the_values_seen() -> None:
    assert approximate(256.0, 250.0, 259.0) == "≈ 256"
    assert approximate(254.0, 252.0, 300.0) == "≈ 254"


@pytest.mark.parametrize(
    ("value", "words"),
    [(1.0, "1.00"), (0.254, "0.25"), (0.0996, "0.10"), (0.0123, "0.012"), (0.00004, "0.000040"), (None, "–")],
)
def test_a_small_ratio_has_two_digits(value: float | None, words: str) -> None:
    assert ratio(value) == words


def test_nothing_is_never_less_than_nothing() -> None:
    assert (percent(-0.002), whole(-0.4), decimals(-0.004)) == ("0 %", "0", "0.00")
    assert percent(-0.02) == "\N{MINUS SIGN}2 %"


@pytest.mark.parametrize(
    ("rate", "digits", "words"),
    [
        (1, 0, "100 %"),
        (1 - 103 / 21_191, 0, "99.5 %"),
        (0.99999, 0, "99.9 %"),
        (-0.996, 0, "\N{MINUS SIGN}99.6 %"),
        (0.99999, 1, "99.99 %"),
        (0.994, 0, "99 %"),
        (1.004, 0, "100 %"),
    ],
)
def test_not_quite_all_is_never_all(rate: float, digits: int, words: str) -> None:
    assert percent(rate, digits) == words


def test_actors_and_actions_in_words() -> None:
    assert [*map(actor_words, ("user:ann", "key:ci", "demo", ""))] == ["ann", "key ci", "demo", ""]
    assert [*map(action_words, ("key.created", "config.drafted"))] == ["Key created", "Draft config saved"]
