"""The wording of a figure's change."""

import pytest

from dashboard.kit.charts.tiles import Change, describe_growth


@pytest.mark.parametrize(
    ("now", "before", "change"),
    [
        (150, 100, Change("▲", "50 %", "good")),
        (50, 100, Change("▼", "50 %", "bad")),
        (0, 100, Change("▼", "100 %", "bad")),
        (-50, -100, Change("▲", "50 %", "good")),
        (-12_000, 300, Change("▼", "12.3 k", "bad")),
        (40, -2, Change("▲", "42", "good")),
        (1_001, 1_000, Change("", "no change")),
        (5, 0, Change("", "")),
    ],
)
def test_growth_is_a_share_and_across_zero_a_difference(now: int, before: int, change: Change) -> None:
    assert describe_growth(now, before, "higher") == change
