"""The chart of a backtest. Pure: rows in, a figure out."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.kit.charts.plots import ACCENT, COSTLY, MUTED, Plot, bar, bare_layout


@dataclass(frozen=True, slots=True)
class TokenPair:
    """An assembly's tokens as logged and under the version, and the address of their comparison."""

    name: str
    before: int
    after: int
    link: str


def tokens_figure(pairs: Sequence[TokenPair]) -> Plot:
    """Draw each assembly's tokens before, wide and pale, and after, narrow in front of it."""
    names, links = [pair.name for pair in pairs], [pair.link for pair in pairs]
    before = bar(
        name="as logged", x=names, y=[pair.before for pair in pairs], customdata=links,
        marker={"color": MUTED, "opacity": 0.6}, width=0.9,
        hovertemplate="assembly %{x}: %{y:,} as logged<extra></extra>",
    )  # fmt: skip
    colours = [COSTLY if pair.after > pair.before else ACCENT for pair in pairs]
    after = bar(
        name="under the version", x=names, y=[pair.after for pair in pairs], customdata=links,
        marker={"color": colours}, width=0.5,
        hovertemplate="%{y:,} under the version<extra></extra>",
    )  # fmt: skip
    plot = Plot([before, after], bare_layout(MUTED))
    plot.update_layout(
        margin={"l": 52, "r": 16, "t": 10, "b": 48}, showlegend=False, barmode="overlay", hovermode="x"
    )
    plot.update_xaxes(type="category", nticks=8, tickangle=0, title={"text": "assembly", "standoff": 8})
    plot.update_yaxes(rangemode="tozero", tickformat="~s")
    return plot
