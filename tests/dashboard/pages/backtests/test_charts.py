"""The steps that a backtest's chart counts changes in."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.pages.backtests.charts import BARS_MAX, Step, changes_figure, steps_of


def test_counts_each_sign_in_steps_of_its_own() -> None:
    assert steps_of([-150, -100, -99, 0, 0, 1, 100, 101]) == [
        Step(-160, -141, 1), Step(-140, -121, 0), Step(-120, -101, 0), Step(-100, -81, 2), Step(-80, -61, 0),
        Step(-60, -41, 0), Step(-40, -21, 0), Step(-20, -1, 0), Step(0, 0, 2),
        Step(1, 20, 1), Step(21, 40, 0), Step(41, 60, 0), Step(61, 80, 0), Step(81, 100, 1),
        Step(101, 120, 1),
    ]  # fmt: skip


@given(st.lists(st.integers(-1_000_000, 1_000_000)))
def test_each_change_is_in_one_step(changes) -> None:
    steps = steps_of(changes)
    for step in steps:
        assert sum(step.least <= change <= step.most for change in changes) == step.contexts
    assert sum(step.contexts for step in steps) == len(changes)
    assert len(steps) <= 2 * BARS_MAX + 1
    assert all(after.least == before.most + 1 for before, after in pairwise(steps))


@pytest.mark.parametrize(
    ("step", "label", "words"),
    [
        (Step(-300, -201, 4), "−300", "201 to 300 tokens fewer"),
        (Step(0, 0, 4), "0", "unchanged"),
        (Step(1_001, 1_100, 4), "+1,100", "1,001 to 1,100 tokens more"),
        (Step(3, 3, 1), "+3", "3 tokens more"),
    ],
)
def test_says_its_step(step, label, words) -> None:
    assert (step.label, step.words) == (label, words)


def test_few_contexts_have_an_axis_of_whole_numbers() -> None:
    assert changes_figure([0, 0]).layout["yaxis"]["dtick"] == 1
    assert "dtick" not in changes_figure([0] * 6).layout["yaxis"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([-1_700, -900, 0, 0, 0], "unchanged"),
        ([0, 30, 40], "26 to 30 tokens more"),
        ([-5, -4, -3], "4 tokens fewer"),
    ],
)
def test_the_median_is_at_its_bar(changes, words) -> None:
    plot = changes_figure(changes)
    bars = [bar for trace in plot.traces for bar in trace["text"]]
    assert bars[plot.layout["shapes"][0]["x0"]] == words
