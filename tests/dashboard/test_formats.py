"""Figures as people read them."""

import pytest

from dashboard.formats import fewer_words


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
