"""Plotly figures as plain JSON.

Plotly's own classes check every property as it is set, which takes longer than all queries of a page
together. The tests check with them what is built here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from itertools import pairwise, zip_longest
from typing import Any

from dashboard.kit.periods import Period

type Json = dict[str, Any]

LEGEND_PX = 11


def scatter(**properties: Any) -> Json:
    return {"type": "scatter", **properties}


def bar(**properties: Any) -> Json:
    return {"type": "bar", **properties}


@dataclass(frozen=True, slots=True)
class Plot:
    """Traces and their layout. Updates are merged into existing values, one level deep."""

    traces: list[Json]
    layout: Json = field(default_factory=dict)

    def update_layout(self, **changes: Any) -> None:
        for name, value in changes.items():
            known = self.layout.get(name)
            self.layout[name] = {**known, **value} if isinstance(known, dict) else value

    def update_xaxes(self, **changes: Any) -> None:
        self.update_layout(xaxis=changes)

    def update_yaxes(self, **changes: Any) -> None:
        self.update_layout(yaxis=changes)

    def to_plotly_json(self) -> Json:
        return {"data": self.traces, "layout": self.layout}


def share_lists(figures: Mapping[str, Json]) -> Json:
    """Return the figures with each list in their traces stored once, however many traces use it.

    A trace refers to its lists by number in `lists`; `charts.js` puts them back.
    """
    numbers: dict[tuple[Any, ...], int] = {}
    shared = {
        slug: {**figure, "data": [_without_lists(trace, numbers) for trace in figure["data"]]}
        for slug, figure in figures.items()
    }
    return {"lists": list(numbers), "figures": shared}


def _without_lists(trace: Json, numbers: dict[tuple[Any, ...], int]) -> Json:
    lists = {name: value for name, value in trace.items() if isinstance(value, list | tuple)}
    kept = {name: value for name, value in trace.items() if name not in lists}
    placed = {
        name: numbers.setdefault(_brief(value) if name == "y" else tuple(value), len(numbers))
        for name, value in lists.items()
    }
    return {**kept, "lists": placed}


def _brief(values: Sequence[Any]) -> tuple[Any, ...]:
    """Round fractions to six significant figures, which is more than a chart can show."""
    return tuple(float(f"{value:.6g}") if type(value) is float else value for value in values)


def bare_layout() -> Json:
    """Return the layout that all figures share."""
    hover = {"bgcolor": "var(--surface)", "bordercolor": "var(--line)", "font": {"color": "var(--ink)"}}
    return {
        "template": {},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": MUTED, "size": 12},
        "hoverlabel": hover,
        "uirevision": "constant",
        "xaxis": {"fixedrange": True, "showgrid": False, "linecolor": "var(--line)"},
        "yaxis": {"fixedrange": True, "gridcolor": "var(--line)", "zeroline": False, "nticks": 5},
    }


# Up to here, an axis has a tick for each whole number.
FEW = 5


def with_counts(plot: Plot) -> Plot:
    """Show only whole numbers on the y axis, long ones as 12k."""
    plot.update_yaxes(tickformat=NUMBER_FORMAT, tickformatstops=COUNT_STOPS)
    stacks = zip_longest(*(trace["y"] for trace in plot.traces), fillvalue=None)
    if max((sum(abs(value or 0) for value in stack) for stack in stacks), default=0) <= FEW:
        plot.update_yaxes(dtick=1)
    return plot


def stacked(plot: Plot) -> Plot:
    """Stack the bars and add a legend: bars have no end to write a name at."""
    plot.update_layout(barmode="relative")
    return with_legend(plot)


def with_legend(plot: Plot) -> Plot:
    longest = max((len(trace.get("name", "")) for trace in plot.traces), default=0)
    legend = {
        "orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom",
        # Without a width, Plotly puts each name on its own line. Most letters are narrower than this.
        "font": {"color": "var(--ink-2)", "size": LEGEND_PX},
        "entrywidth": longest * LEGEND_PX * 0.6,
        "itemclick": False, "itemdoubleclick": False,
    }  # fmt: skip
    plot.update_layout(showlegend=True, legend=legend, margin={"t": 34})
    return plot


def plain(text: str) -> str:
    """Escape a text so that a figure shows it as it is: Plotly interprets tags in its texts."""
    return escape(text, quote=False)


def texts_at(x: Any, heights: Iterable[float], names: Iterable[str]) -> list[Json]:
    """Return annotations that write names to the right of `x`, at the given heights."""
    return [
        {
            "x": x, "y": height, "text": plain(name), "showarrow": False, "xanchor": "left", "xshift": 6,
            "font": {"color": "var(--ink-2)", "size": 12},
        }
        for name, height in zip(names, heights, strict=True)
    ]  # fmt: skip


NUMBER_FORMAT = ",~g"
"""Ticks with as many digits as they need to differ, also below one, where "~s" would write 0.5 as 500m."""
COUNT_FORMAT = "~s"
COUNT_STOPS = [
    {"dtickrange": [None, 1], "value": NUMBER_FORMAT},
    {"dtickrange": [1, None], "value": COUNT_FORMAT},
]
ACCENT, MUTED, SAVED, COSTLY = "var(--accent)", "var(--ink-3)", "var(--context)", "var(--warn)"


def wall_clock(period: Period) -> list[str]:
    """Return the buckets' starts as local times of the team: the chart knows no time zones."""
    return [_by_the_wall(edge, period).isoformat() for edge in period.edges[:-1]]


def _by_the_wall(moment: datetime, period: Period) -> datetime:
    return moment.astimezone(period.zone).replace(tzinfo=None)


def bar_opacities(period: Period) -> list[float]:
    """Return the opacity of each bucket's bar: an incomplete one is paler."""
    return [1.0] * (len(period.buckets) - 1) + [0.5 if period.is_incomplete else 1.0]


def point_symbols(period: Period) -> list[str]:
    """Return the symbol of each bucket's point: an incomplete one is hollow."""
    return ["circle"] * (len(period.buckets) - 1) + ["circle-open" if period.is_incomplete else "circle"]


def lay_out(period: Period, traces: list[Any], tick_format: str, hover_format: str) -> Plot:
    """Lay out the traces: no box, a thin grid from zero, no tool bar.

    With `COUNT_FORMAT`, the y axis has whole numbers alone.
    """
    plot = Plot(traces, bare_layout())
    margin = {"l": 52, "r": 48, "t": 18, "b": 28}
    plot.update_layout(margin=margin, hovermode="x unified", showlegend=False, bargap=0.35, dragmode=False)
    plot.update_xaxes(**_time_axis(period))
    plot.update_yaxes(
        zerolinecolor=MUTED, rangemode="tozero", tickformat=tick_format, hoverformat=hover_format
    )
    return with_counts(plot) if tick_format == COUNT_FORMAT else plot


def _time_axis(period: Period) -> dict[str, Any]:
    """Return the time axis, the same for every chart of a page so that days line up."""
    first, last = (_by_the_wall(period.edges[place], period) for place in (0, -2))
    half, is_hourly = (last - first) / max(1, len(period.edges) - 2) / 2, period.step == "hour"
    return {
        "type": "date", "range": [first - half, last + half],
        "zeroline": False, "nticks": 6, "tickangle": 0,
        "tickformat": "%H:%M" if is_hourly else "%-d %b",
        "hoverformat": "%-d %b %H:%M" if is_hourly else "%A %-d %B",
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a moment and may explain a chart. `label` has a few characters."""

    at: datetime
    label: str


# Labels closer than this share of the time axis would overlap.
MARK_WIDTH = 0.13


def add_marks(plot: Plot, period: Period, marks: Iterable[Mark]) -> None:
    """Draw a dotted line for each mark, at the start of its bucket, with its label above the chart.

    Two labels that would touch lean apart. More of them become one label with their number.
    """
    span = (period.edges[-1] - period.edges[0]) * MARK_WIDTH
    groups: list[list[Mark]] = []
    for mark in sorted(marks, key=lambda mark: mark.at):
        if groups and mark.at - groups[-1][0].at < span:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    add_flags(plot, [flag for group in groups for flag in _flags(group, period)])


def add_flags(plot: Plot, flags: Sequence[tuple[Any, str, str]]) -> None:
    """Draw a dotted line at each place on the x axis, with its label above the chart, anchored as given."""
    if not flags:
        return
    shapes = [
        {
            "type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1,
            "line": {"color": MUTED, "width": 1, "dash": "dot"},
        }
        for x, *_ in flags
    ]  # fmt: skip
    labels = [
        {
            "x": x, "y": 1, "yref": "paper", "yanchor": "bottom", "xanchor": anchor, "text": plain(label),
            "showarrow": False, "font": {"color": "var(--ink-2)", "size": 11},
        }
        for x, label, anchor in flags
        if label
    ]  # fmt: skip
    plot.layout["shapes"] = shapes
    plot.layout["annotations"] = [*plot.layout.get("annotations", []), *labels]
    if "legend" in plot.layout:
        # The legend goes above the labels.
        plot.update_layout(legend={"y": 1.12}, margin={"t": 52})
    plot.update_layout(margin={"t": max(22, plot.layout["margin"]["t"])})


def _flags(group: list[Mark], period: Period) -> list[tuple[datetime, str, str]]:
    """Return the place, the label and its anchor for each of some marks that are close together."""
    places = [_bucket_start(mark.at, period) for mark in group]
    if len(group) == 1:
        return [(places[0], group[0].label, "center")]
    if len(group) == 2 and places[0] != places[1]:
        return [(places[0], group[0].label, "right"), (places[1], group[1].label, "left")]
    first, *rest = dict.fromkeys(places)
    return [(first, f"{len(group)} changes", "center"), *((place, "", "") for place in rest)]


def _bucket_start(moment: datetime, period: Period) -> datetime:
    starts = [edge for edge in period.edges[:-1] if edge <= moment]
    return _by_the_wall(starts[-1] if starts else period.edges[0], period)


DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")

# Labels closer than this share of the axis would overlap.
LABEL_HEIGHT = 0.09
LABEL_MARGIN = 88


def spread_labels(heights: list[float]) -> list[float]:
    """Move labels apart in their order, first upwards from the lowest, then down again from the top."""
    order = sorted(range(len(heights)), key=lambda place: (heights[place], place))
    # Start half a label above the lowest end, to keep the lowest name clear of the dates.
    floor = min([0.0, *heights]) + LABEL_HEIGHT / 2
    moved = [max(height, floor) for height in heights]
    for below, above in pairwise(order):
        moved[above] = max(moved[above], moved[below] + LABEL_HEIGHT)
    ceiling = 1.0
    for place in reversed(order):
        moved[place] = min(moved[place], ceiling)
        ceiling = moved[place] - LABEL_HEIGHT
    return moved


def name_ends(plot: Plot, x: Any, ends: Iterable[float], names: Iterable[str], *, top: float = 1.0) -> None:
    """Write the names of lines at their ends, where they do not overlap; `top` is the highest value."""
    heights = spread_labels([end / top for end in ends])
    # The names take room from the axis, so that fewer days fit on a phone.
    plot.update_xaxes(nticks=5)
    notes = texts_at(x, [height * top for height in heights], names)
    plot.update_layout(annotations=notes, margin={"r": LABEL_MARGIN})
