"""The chart of a backtest. Pure: changes in, a figure out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low

from dashboard.kit.charts.plots import (
    ACCENT,
    COSTLY,
    MUTED,
    Plot,
    add_flags,
    bar,
    bare_layout,
    with_counts,
    with_legend,
)
from dashboard.kit.formats import signed, whole

# Bars on either side of the unchanged contexts.
BARS_MAX = 12


@dataclass(frozen=True, slots=True)
class Step:
    """The contexts whose change in tokens is between `least` and `most`, both included."""

    least: int
    most: int
    contexts: int

    @property
    def label(self) -> str:
        """The end that is farther from no change."""
        return signed(self.least if self.most < 0 else self.most)

    @property
    def words(self) -> str:
        if self.least == self.most == 0:
            return "unchanged"
        near, far = sorted((abs(self.least), abs(self.most)))
        span = whole(far) if near == far else f"{whole(near)} to {whole(far)}"
        return f"{span} tokens {'fewer' if self.most < 0 else 'more'}"


def steps_of(changes: Sequence[int]) -> list[Step]:
    """Count the changes in steps of 1, 2, 5, 10, 20, … tokens, from the lowest to the highest.

    No step holds both signs, and the unchanged contexts have one of their own.
    """
    if not changes:
        return []
    width = _width(max(abs(change) for change in changes))
    counted = Counter(_number(change, width) for change in changes)
    places = range(min(0, *counted), max(0, *counted) + 1)
    return [_step(place, width, counted[place]) for place in places]


def _width(largest: int) -> int:
    """Return the least width with which BARS_MAX steps reach the largest change."""
    scale = 1
    while True:
        for width in (scale, 2 * scale, 5 * scale):
            if width * BARS_MAX >= largest:
                return width
        scale *= 10


def _number(change: int, width: int) -> int:
    """Return the number of a change's step, rounded away from 0."""
    return change // width if change < 0 else -(-change // width)


def _step(number: int, width: int, contexts: int) -> Step:
    if number < 0:
        return Step(number * width, (number + 1) * width - 1, contexts)
    return Step((number - 1) * width + 1 if number else 0, number * width, contexts)


def changes_figure(changes: Sequence[int]) -> Plot:
    """Draw how many contexts take how many tokens more or fewer; a bar opens its contexts."""
    steps = steps_of(changes)
    kinds = (
        ("Fewer tokens", ACCENT, [step for step in steps if step.most < 0]),
        ("Unchanged", MUTED, [step for step in steps if step.least == step.most == 0]),
        ("More tokens", COSTLY, [step for step in steps if step.least > 0]),
    )
    traces = [
        bar(
            name=name,
            x=[step.label for step in held],
            # The arrow keys pass over null.
            y=[step.contexts or None for step in held],
            customdata=[f"?least={step.least}&most={step.most}#rows" for step in held],
            text=[step.words for step in held],
            textposition="none",
            marker={"color": colour},
            hovertemplate="%{text}<br>contexts: %{y:,}<extra></extra>",
        )
        for name, colour, held in kinds
        if held
    ]
    plot = with_legend(Plot(traces, bare_layout()))
    plot.update_layout(margin={"l": 52, "r": 16, "b": 48}, bargap=0.1, barmode="overlay", hovermode="x")
    plot.update_xaxes(
        type="category", nticks=7, tickangle=0, title={"text": "change in tokens", "standoff": 8}
    )
    plot.update_yaxes(rangemode="tozero")
    with_counts(plot)
    if steps:
        middle = median_low(changes)
        # Plotly would take a label such as "+40" for the number of a bar.
        at = next(place for place, step in enumerate(steps) if step.least <= middle <= step.most)
        add_flags(plot, [(at, f"median {signed(middle)}", "center")])
    return plot
