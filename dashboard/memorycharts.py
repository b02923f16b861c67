"""The chart of a strategy's trust. Pure, in the terms of `dashboard.charts`: rows in, a Plotly figure out."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import plotly.graph_objects as go

from dashboard.charts import ACCENT, COSTLY, MUTED

# A single moment has no width to draw on.
MARGIN = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class TrustPoint:
    """The trust from a moment on, by the team's wall clock, and why it moved."""

    moment: datetime
    trust: float
    reason: str


def trust_figure(points: Sequence[TrustPoint], retire_below: float) -> go.Figure:
    """Trust in steps from 0 to 1, and the line below which a strategy is retired."""
    trace = go.Scatter(
        name="trust", x=[point.moment for point in points], y=[point.trust for point in points],
        text=[point.reason for point in points], hovertemplate="%{y:.2f}, %{text}<extra></extra>",
        mode="lines+markers", line={"color": ACCENT, "width": 2, "shape": "hv"},
        marker={"color": ACCENT, "size": 7},
    )  # fmt: skip
    hover = {"bgcolor": "var(--surface)", "bordercolor": "var(--line)", "font": {"color": "var(--ink)"}}
    figure = go.Figure(
        [trace],
        {
            "template": {},
            "margin": {"l": 40, "r": 16, "t": 10, "b": 42},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": MUTED, "size": 12},
            "hoverlabel": hover,
            "showlegend": False,
            "uirevision": "constant",
            "xaxis": {
                "type": "date", "fixedrange": True, "showgrid": False, "zeroline": False, "nticks": 5,
                "tickangle": 0, "linecolor": "var(--line)", "hoverformat": "%-d %b %H:%M",
                "tickformat": "%-d %b<br>%H:%M",
            },
            "yaxis": {
                "range": [-0.02, 1.04], "nticks": 5, "fixedrange": True, "gridcolor": "var(--line)",
                "zeroline": False, "tickformat": ".2~f",
            },
        },
    )  # fmt: skip
    if points:
        figure.update_xaxes(range=[points[0].moment - MARGIN, points[-1].moment + MARGIN])
    line = {"color": COSTLY, "width": 1, "dash": "dot"}
    figure.update_layout(
        shapes=[
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": retire_below,
                "y1": retire_below,
                "line": line,
            }
        ]
    )
    return figure
