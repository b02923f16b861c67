"""The overview's charts with a line per kind, and its votes by stage. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dashboard.kit.charts.plots import (
    DASHES,
    LABEL_MARGIN,
    Json,
    Plot,
    lay_out,
    scatter,
    spread_labels,
    texts_at,
)
from dashboard.kit.formats import percent
from dashboard.pages.overview.charts import (
    KIND_COLOURS,
    SHARE_FORMAT,
    SHARE_HOVER,
    Chart,
    ChartData,
    kind_name,
)
from dashboard.pages.overview.figures import Series
from dashboard.pages.overview.votes import Votes

STAGE_COLOURS = {2: "var(--response)", 3: "var(--history)", 4: "var(--context)", 5: "var(--system)"}


@dataclass(frozen=True, slots=True)
class Cells:
    """One column of a table view or CSV, with a value for each bucket."""

    name: str
    values: tuple[float | None, ...]
    show: Callable[[float | None], str]


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    colour: str
    values: Sequence[float | None]
    links: list[str]


def columns_of(chart: Chart, series: Series, *, is_apart: bool) -> list[Cells]:
    """Return the chart's columns, or its leading column for each kind."""
    if not is_apart:
        return [
            Cells(column.name, tuple(map(column.pick, series.points)), column.show)
            for column in chart.columns
        ]
    lead = chart.leading
    return [
        Cells(f"{lead.name}, {kind_name(kind)}", tuple(map(lead.pick, points)), lead.show)
        for kind, points in series.kinds.items()
    ]


def apart_figure(chart: Chart, data: ChartData) -> Plot:
    """Draw a chart's leading figure as one line for each kind that has it."""
    lines = [
        _Line(
            kind_name(kind), KIND_COLOURS[kind], [chart.leading.pick(point) for point in points],
            data.links_of_kinds[kind],
        )
        for kind, points in data.series.kinds.items()
    ]  # fmt: skip
    return _lines_figure(data, lines, chart.tick_format, chart.hover_format)


def votes_columns(votes: Mapping[int, tuple[Votes, ...]]) -> list[Cells]:
    return [
        Cells(f"Stage {stage}", tuple(point.rate for point in points), percent)
        for stage, points in votes.items()
    ]


def votes_figure(data: ChartData) -> Plot:
    """Draw the share of thumbs up, one line per stage."""
    lines = [
        _Line(
            f"stage {stage}", STAGE_COLOURS.get(stage, "var(--ink-3)"), [point.rate for point in points],
            data.links,
        )
        for stage, points in data.votes.items()
    ]  # fmt: skip
    figure = _lines_figure(data, lines, SHARE_FORMAT, SHARE_HOVER)
    figure.update_yaxes(range=[0, 1.04])
    return figure


def _lines_figure(data: ChartData, lines: list[_Line], tick_format: str, hover_format: str) -> Plot:
    measured = [line for line in lines if any(value is not None for value in line.values)]
    traces = [_trace(data, line, dash) for line, dash in zip(measured, DASHES, strict=False)]
    figure = lay_out(data.series.period, traces, tick_format, hover_format)
    top = max((value for line in measured for value in line.values if value is not None), default=0.0) or 1.0
    heights = spread_labels([_last(line.values) / top for line in measured])
    notes = texts_at(data.moments[-1], [height * top for height in heights], [line.name for line in measured])
    figure.update_xaxes(nticks=5)
    figure.update_layout(annotations=notes, margin={"r": LABEL_MARGIN})
    return figure


def _trace(data: ChartData, line: _Line, dash: str) -> Json:
    """Draw a line; the point of an incomplete bucket is hollow."""
    count = len(line.values)
    last = "circle-open" if data.series.period.is_incomplete else "circle"
    symbols = [*(["circle"] * (count - 1)), last]
    return scatter(
        name=line.name, x=data.moments, y=line.values, mode="lines+markers",
        customdata=line.links,
        marker={"color": line.colour, "size": 5, "symbol": symbols},
        line={"color": line.colour, "width": 2, "dash": dash},
    )  # fmt: skip


def _last(values: Sequence[float | None]) -> float:
    return next((value for value in reversed(values) if value is not None), 0.0)
