"""The chart of a task's hand-offs. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.kit.charts.plots import Json, Plot, bar, bare_layout, stacked, with_counts


@dataclass(frozen=True, slots=True)
class HandoffBar:
    """One phase: its findings in full, and the part handed on; None before the hand-off."""

    label: str
    full_tokens: int
    brief_tokens: int | None
    critical_tokens: int | None

    @property
    def handed_tokens(self) -> int | None:
        if self.brief_tokens is None or self.critical_tokens is None:
            return None
        return self.brief_tokens + self.critical_tokens


def handoff_figure(bars: Sequence[HandoffBar]) -> Plot:
    """Draw two bars per phase: findings in full, and critical findings with the brief on top."""
    labels = [each.label for each in bars]
    traces = [
        _bars("all findings", labels, [each.full_tokens for each in bars], "var(--response)", 1),
        _bars("critical", labels, [each.critical_tokens for each in bars], "var(--context)", 2),
        _bars("brief", labels, [each.brief_tokens for each in bars], "var(--history)", 2),
    ]
    plot = stacked(Plot(traces, bare_layout()))
    plot.update_layout(margin={"l": 52, "r": 12, "b": 28}, bargap=0.35, hovermode="x unified")
    plot.update_yaxes(rangemode="tozero", hoverformat=",.0f")
    return with_counts(plot)


def _bars(name: str, labels: list[str], values: Sequence[int | None], colour: str, group: int) -> Json:
    return bar(
        name=name, x=labels, y=list(values), marker={"color": colour}, offsetgroup=str(group),
        legendgroup=name,
    )  # fmt: skip
