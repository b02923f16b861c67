"""The overview's charts with a line per kind, and its votes by stage. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dashboard.kit.charts.panels import Cells
from dashboard.kit.charts.plots import (
    DASHES,
    Json,
    Plot,
    lay_out,
    name_ends,
    plain,
    point_symbols,
    scatter,
)
from dashboard.kit.charts.tiles import Proportion
from dashboard.kit.formats import percent, whole
from dashboard.pages.overview.charts import (
    KIND_COLOURS,
    SHARE_FORMAT,
    SHARE_HOVER,
    SOFT,
    Chart,
    ChartData,
    finish,
    kind_name,
    last_known,
)
from dashboard.pages.overview.figures import Series

STAGE_COLOURS = {2: "var(--response)", 3: "var(--history)", 4: "var(--context)", 5: "var(--system)"}


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    colour: str
    values: Sequence[float | None]
    rows: str
    # The votes behind each value, where values are shares of votes.
    counts: Sequence[int] = ()


def columns_of(chart: Chart, series: Series, *, is_apart: bool) -> list[Cells]:
    """Return the chart's columns, or its leading column for each kind."""
    if not is_apart:
        return chart.cells(chart.points(series))
    lead = chart.leading
    return [
        replace(lead.cells(points), name=f"{lead.name}, {kind_name(kind)}")
        for kind, points in series.kinds.items()
    ]


def apart_figure(chart: Chart, data: ChartData) -> Plot:
    """Draw a chart's leading figure as one line for each kind that has it."""
    lines = [
        _Line(
            kind_name(kind), KIND_COLOURS[kind], [chart.leading.pick(point) for point in points],
            data.kind_rows[kind],
        )
        for kind, points in data.series.kinds.items()
    ]  # fmt: skip
    return finish(_lines_figure(data, lines, chart.tick_format, chart.hover_format), data, chart.rows)


def votes_columns(votes: Mapping[int, tuple[Proportion, ...]]) -> list[Cells]:
    return [
        cells
        for stage, points in votes.items()
        for cells in (
            Cells(f"Stage {stage}", tuple(point.rate for point in points), percent),
            Cells(f"Stage {stage} votes", tuple(point.count for point in points), whole),
        )
    ]


def votes_figure(data: ChartData) -> Plot:
    """Draw the share of upvotes, one line per stage. Few votes are pooled with those before them."""
    pooled = {stage: pool(points) for stage, points in data.votes.items() if any(p.count for p in points)}
    lines = [
        _Line(
            f"stage {stage}", STAGE_COLOURS.get(stage, "var(--ink-3)"), [point.rate for point in points],
            data.rows, [point.count for point in points],
        )
        for stage, points in pooled.items()
    ]  # fmt: skip
    figure = _lines_figure(data, lines, SHARE_FORMAT, SHARE_HOVER)
    if len(pooled) == 1:
        figure.traces[:0] = _band(data, *pooled.values())
    figure.update_yaxes(range=[0, 1.04])
    return finish(figure, data, "")


def pool(points: Sequence[Proportion]) -> list[Proportion]:
    """Return each bucket's votes, together with those of the buckets before it until there are enough."""
    pooled = []
    for place, point in enumerate(points):
        earlier = place
        while point.count and not point.is_comparable and earlier:
            earlier -= 1
            point += points[earlier]  # noqa: PLW2901 the sum of the buckets so far
        pooled.append(point)
    return pooled


def _band(data: ChartData, points: Sequence[Proportion]) -> list[Json]:
    """Shade the 95 % interval between the first and the last bucket with votes."""
    known = [
        (moment, *point.interval) for moment, point in zip(data.moments, points, strict=True) if point.count
    ]
    bare = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "x": [moment for moment, *_ in known]}
    return [
        scatter(**bare, y=[low for _, low, _ in known]),
        scatter(**bare, y=[high for _, _, high in known], fill="tonexty", fillcolor=SOFT),
    ]


def _lines_figure(data: ChartData, lines: list[_Line], tick_format: str, hover_format: str) -> Plot:
    measured = [line for line in lines if any(value is not None for value in line.values)]
    traces = [_trace(data, line, dash) for line, dash in zip(measured, DASHES, strict=False)]
    figure = lay_out(data.series.period, traces, tick_format, hover_format)
    top = max((value for line in measured for value in line.values if value is not None), default=0.0) or 1.0
    ends = [last_known(line.values) for line in measured]
    name_ends(figure, data.moments[-1], ends, [line.name for line in measured], top=top)
    return figure


def _trace(data: ChartData, line: _Line, dash: str) -> Json:
    symbols = point_symbols(data.series.period)
    of_votes = {"hovertemplate": f"{plain(line.name)}: %{{y:.0%}} of %{{text}} votes<extra></extra>"}
    counted = {"text": list(line.counts), **of_votes} if line.counts else {}
    return scatter(
        **counted, name=line.name, x=data.moments, y=line.values, mode="lines+markers",
        customdata=data.spans, meta={"rows": line.rows},
        marker={"color": line.colour, "size": 5, "symbol": symbols},
        line={"color": line.colour, "width": 2, "dash": dash},
    )  # fmt: skip
