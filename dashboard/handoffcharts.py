"""The chart of a task's hand-offs. Pure, in the terms of `dashboard.charts`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

MUTED = "var(--ink-3)"


@dataclass(frozen=True, slots=True)
class HandoffBar:
    """One phase: its findings in full, and what of them was handed on; none before the hand-off."""

    label: str
    full_tokens: int
    brief_tokens: int | None
    critical_tokens: int | None

    @property
    def handed_tokens(self) -> int | None:
        if self.brief_tokens is None or self.critical_tokens is None:
            return None
        return self.brief_tokens + self.critical_tokens


def handoff_figure(bars: Sequence[HandoffBar]) -> go.Figure:
    """In full beside handed on, a pair a phase; the latter is critical findings with the brief on top."""
    labels = [bar.label for bar in bars]
    traces = [
        _bars("in full", labels, [bar.full_tokens for bar in bars], "var(--response)", 1),
        _bars("critical", labels, [bar.critical_tokens for bar in bars], "var(--context)", 2),
        _bars("brief", labels, [bar.brief_tokens for bar in bars], "var(--history)", 2),
    ]
    hover = {"bgcolor": "var(--surface)", "bordercolor": "var(--line)", "font": {"color": "var(--ink)"}}
    return go.Figure(
        traces,
        {
            "template": {},
            "margin": {"l": 52, "r": 12, "t": 34, "b": 28},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": MUTED, "size": 12},
            "barmode": "relative",
            "bargap": 0.35,
            "hovermode": "x unified",
            "hoverlabel": hover,
            "uirevision": "constant",
            "showlegend": True,
            "legend": {
                "orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"color": "var(--ink-2)"},
                "itemclick": False, "itemdoubleclick": False,
            },
            "xaxis": {"fixedrange": True, "showgrid": False, "linecolor": "var(--line)"},
            "yaxis": {
                "gridcolor": "var(--line)", "zeroline": False, "rangemode": "tozero", "nticks": 5,
                "fixedrange": True, "tickformat": "~s", "hoverformat": ",.0f",
            },
        },
    )  # fmt: skip


def _bars(name: str, labels: list[str], values: Sequence[int | None], colour: str, group: int) -> Any:
    return go.Bar(
        name=name, x=labels, y=list(values), marker={"color": colour}, offsetgroup=str(group),
        legendgroup=name,
    )  # fmt: skip
