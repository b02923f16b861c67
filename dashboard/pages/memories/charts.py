"""The chart of a strategy's trust. Pure: rows in, a figure out."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.kit.charts.plots import ACCENT, COSTLY, Plot, bare_layout, plain, scatter

# A single moment has no width to draw on.
MARGIN = timedelta(hours=6)
# For steps of a day or more the hour is always midnight, so it is not shown.
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class TrustPoint:
    """The trust from a moment on, in the team's local time, and why it changed."""

    moment: datetime
    trust: float
    reason: str


def trust_figure(points: Sequence[TrustPoint], retire_below: float) -> Plot:
    """Draw trust in steps from 0 to 1, and the line below which a strategy is retired."""
    trace = scatter(
        name="trust", x=[point.moment for point in points], y=[point.trust for point in points],
        text=[plain(point.reason) for point in points], hovertemplate="%{y:.2f}, %{text}<extra></extra>",
        mode="lines+markers", line={"color": ACCENT, "width": 2, "shape": "hv"},
        marker={"color": ACCENT, "size": 7},
    )  # fmt: skip
    plot = Plot([trace], bare_layout())
    plot.update_layout(margin={"l": 40, "r": 16, "t": 10, "b": 42}, showlegend=False)
    plot.update_xaxes(
        type="date", zeroline=False, nticks=5, tickangle=0, hoverformat="%-d %b %H:%M",
        tickformat="%-d %b<br>%H:%M", tickformatstops=[{"dtickrange": [DAY_MS, None], "value": "%-d %b"}],
    )  # fmt: skip
    plot.update_yaxes(range=[-0.02, 1.04], tickformat=".2~f")
    if points:
        plot.update_xaxes(range=[points[0].moment - MARGIN, points[-1].moment + MARGIN])
    threshold = {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": retire_below, "y1": retire_below,
        "line": {"color": COSTLY, "width": 1, "dash": "dot"},
    }  # fmt: skip
    plot.update_layout(shapes=[threshold])
    return plot
