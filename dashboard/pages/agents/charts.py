"""The charts of the agents' pages. Pure: rows in, Plotly figures out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from contextopt.engine.agents.phases import DEFAULT_PROFILES
from dashboard.kit.charts.panels import Cells, Column, ColumnChart
from dashboard.kit.charts.plots import (
    COUNT_FORMAT,
    DASHES,
    Json,
    Plot,
    bar,
    bar_opacities,
    bare_layout,
    lay_out,
    name_ends,
    plain,
    scatter,
    stacked,
    wall_clock,
    with_counts,
)
from dashboard.kit.formats import percent, whole
from dashboard.kit.periods import Period
from dashboard.pages.agents.figures import OTHERS, PhaseFigures, PhaseSeries
from dashboard.pages.overview.charts import bucket_query, last_known

# Each default phase has its own colour, the same in every period.
COLOURS = (
    "var(--context)", "var(--system)", "var(--history)", "var(--phase-4)", "var(--phase-5)", "var(--phase-6)",
)  # fmt: skip
OTHERS_COLOUR = "var(--response)"
OTHERS_DASH = "solid"

# Returns the URL of a phase's filtered contexts, to which a bucket's query is added.
type PhaseRows = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class PhaseLine:
    """One phase's figures over the buckets, with its colour and dash."""

    phase: str
    colour: str
    dash: str
    points: tuple[PhaseFigures, ...]

    @property
    def name(self) -> str:
        return self.phase or "others"


@dataclass(frozen=True)
class PhaseData:
    """The data of a figure, with the addresses of its phases' filtered contexts."""

    period: Period
    lines: tuple[PhaseLine, ...]
    rows: PhaseRows

    @classmethod
    def of(cls, series: PhaseSeries, rows: PhaseRows) -> "PhaseData":
        return cls(series.period, tuple(_lines(series)), rows)

    @cached_property
    def moments(self) -> list[str]:
        return wall_clock(self.period)

    @cached_property
    def spans(self) -> list[str]:
        """The buckets as query strings."""
        return [bucket_query(bucket) for bucket in self.period.buckets]

    @cached_property
    def counts(self) -> list[int]:
        """The number of filtered contexts in each bucket."""
        return [sum(line.points[place].filterings for line in self.lines) for place in range(len(self.spans))]


type PhaseChart = ColumnChart[PhaseFigures, PhaseData]


def columns_of(chart: PhaseChart, data: PhaseData) -> list[Cells]:
    """Return the chart's only column for each phase."""
    (column,) = chart.columns
    return [replace(column.cells(line.points), name=line.name) for line in data.lines]


def saved_figure(data: PhaseData) -> Plot:
    """Draw the tokens saved, the phases stacked; extra costs go below zero."""
    bars = [
        bar(
            name=plain(line.name), x=data.moments, y=[_saved(point) for point in line.points],
            marker={"color": line.colour, "opacity": bar_opacities(data.period)},
            **_links(data, line),
        )
        for line in data.lines
    ]  # fmt: skip
    figure = lay_out(data.period, bars, COUNT_FORMAT, ",.0f")
    figure.update_yaxes(zeroline=True)
    return stacked(figure)


def share_figure(data: PhaseData) -> Plot:
    """Draw the share of the full context that was left out, one line per phase."""
    measured = [line for line in data.lines if any(point.full_tokens for point in line.points)]
    traces = [_line(data, line) for line in measured]
    figure = lay_out(data.period, traces, ".0%", ".0%")
    lowest = min(
        (rate for line in measured for point in line.points if (rate := point.rate) is not None), default=0
    )
    figure.update_yaxes(range=[min(0.0, lowest), 1.04])
    ends = [last_known([point.rate for point in line.points]) for line in measured]
    name_ends(figure, data.moments[-1], ends, [line.name for line in measured])
    return figure


def _saved(figures: PhaseFigures) -> int | None:
    return figures.saved_tokens if figures.filterings else None


_CHARTS: tuple[PhaseChart, ...] = (
    ColumnChart(
        "saved",
        "Tokens saved by phase",
        "compared with the full context",
        (Column("Tokens saved", _saved, whole),),
        saved_figure,
    ),
    ColumnChart(
        "share",
        "Share saved by phase",
        "of the full context",
        (Column("Share saved", lambda f: f.rate, percent),),
        share_figure,
    ),
)
PHASE_CHARTS = {chart.slug: chart for chart in _CHARTS}


def _lines(series: PhaseSeries) -> list[PhaseLine]:
    """Give each phase a colour; phases beyond the available colours share one line."""
    places = {phase: place for place, phase in enumerate(DEFAULT_PROFILES) if phase in series.phases}
    free = [place for place in range(len(COLOURS)) if place not in places.values()]
    for phase in series.phases:
        if phase not in places and phase != OTHERS and free:
            places[phase] = free.pop(0)
    lines = [
        PhaseLine(phase, COLOURS[places[phase]], DASHES[places[phase]], series.points[phase])
        for phase in series.phases
        if phase in places
    ]
    rest = [series.points[phase] for phase in series.phases if phase not in places]
    if rest:
        together = tuple(sum(points, PhaseFigures()) for points in zip(*rest, strict=True))
        lines.append(PhaseLine(OTHERS, OTHERS_COLOUR, OTHERS_DASH, together))
    return lines


def _line(data: PhaseData, line: PhaseLine) -> Json:
    marker: dict[str, Any] = {"color": line.colour, "size": 5}
    return scatter(
        name=plain(line.name), x=data.moments, y=[point.rate for point in line.points],
        mode="lines+markers", marker=marker, line={"color": line.colour, "width": 2, "dash": line.dash},
        **_links(data, line),
    )  # fmt: skip


def _links(data: PhaseData, line: PhaseLine) -> Json:
    """Return the addresses of a line's points. The other phases have none: no list shows them alone."""
    if line.phase == OTHERS:
        return {}
    return {"customdata": data.spans, "meta": {"rows": data.rows(line.phase)}}


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
