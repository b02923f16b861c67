"""The overview's charts: rows in, Plotly figures out. Pure: no database, no clock, no theme.

A colour is the name of a CSS variable, which `charts.js` replaces with the theme's. A trace has the URL of
its assemblies in `meta`, and a point adds the query of its bucket, its custom data. To add a chart, write its
`build` function and its columns, and register it in `CHARTS`: page, table view and CSV follow from that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from dashboard.kit.charts.panels import Column, ColumnChart
from dashboard.kit.charts.plots import (
    ACCENT,
    COSTLY,
    COUNT_FORMAT,
    MUTED,
    NUMBER_FORMAT,
    SAVED,
    Json,
    Mark,
    Plot,
    add_marks,
    bar,
    bar_opacities,
    lay_out,
    plain,
    scatter,
    spread_labels,
    stacked,
    texts_at,
    wall_clock,
)
from dashboard.kit.charts.tiles import Proportion
from dashboard.kit.formats import kinds_of, milliseconds, money, percent, ratio, tenths, whole
from dashboard.kit.periods import Bucket
from dashboard.pages.overview.figures import Figures, Series

SOFT = "var(--accent-soft)"
RATIO_HOVER = ".3~g"
SHARE_FORMAT, SHARE_HOVER = "~%", ".1%"
MARKS_SHOWN = 6
KIND_COLOURS = {
    "space": "var(--context)",
    "phase": "var(--system)",
    "retry": "var(--history)",
    "handoff": "var(--response)",
    "hint": "var(--neighbour)",
    "agent": "var(--date)",
}

# Two lines whose ends are closer than this share of the highest value have their names above and below.
CLOSE = 0.1

type Pick = Callable[[Figures], float | None]


@dataclass(frozen=True)
class ChartData:
    """The data of a figure; `rows` is the URL of its assemblies, to which a bucket's query is added.

    `kind_rows` are those of each kind; `votes` are those of each stage, where there are any. `marks` are
    changes that may explain a figure.
    """

    series: Series
    before: Series
    rows: str
    kind_rows: Mapping[str, str] = field(default_factory=dict)
    votes: Mapping[int, tuple[Proportion, ...]] = field(default_factory=dict)
    marks: Sequence[Mark] = ()

    @cached_property
    def moments(self) -> list[str]:
        return wall_clock(self.series.period)

    @cached_property
    def spans(self) -> list[str]:
        return [bucket_query(bucket) for bucket in self.series.period.buckets]

    @property
    def of_kind(self) -> "ChartData":
        """The data of the series' own kind alone, with the URL of its assemblies."""
        rows = self.kind_rows.get(self.series.kind, self.rows)
        return replace(self, series=self.series.of_kind, before=self.before.of_kind, rows=rows)

    def values(self, pick: Pick) -> list[float | None]:
        return [pick(figures) for figures in self.series.points]


@lru_cache(maxsize=2_000)
def bucket_query(bucket: Bucket) -> str:
    """Return a bucket as a query string of the list of assemblies; cached because polls ask for the same."""
    return f"start={bucket.start:%Y-%m-%dT%H:%M:%SZ}&end={bucket.end:%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True, slots=True)
class Chart(ColumnChart[Figures, ChartData]):
    """A chart of the overview. When kinds are shown separately, only the column at `lead` is drawn.

    `rows` narrows and sorts the assemblies that a click on a point lists. A chart `of_kind` shows the figures
    of one kind: the time and the truncation of different kinds have nothing in common.
    """

    tick_format: str
    hover_format: str
    rows: str
    lead: int = 0
    of_kind: bool = False

    def points(self, series: Series) -> Sequence[Figures]:
        return series.of_kind.points if self.of_kind else series.points

    def note_for(self, series: Series) -> str:
        return f"{kinds_of(series.kind)}; {self.note}" if self.of_kind else self.note

    @property
    def leading(self) -> Column[Figures]:
        return self.columns[self.lead]


def ratio_figure(data: ChartData) -> Plot:
    """Draw the share of filtered records that entered, and the same share one period earlier."""
    return _compared(data, "ratio", lambda f: f.ratio, RATIO_HOVER)


def _compared(data: ChartData, name: str, pick: Pick, hover_format: str) -> Plot:
    """Draw a figure, and the same figure one period earlier. The names of close lines stay apart."""
    now, earlier = data.values(pick), [pick(figures) for figures in data.before.points]
    gap = last_known(now) - last_known(earlier)
    close = CLOSE * max((value for value in (*now, *earlier) if value is not None), default=0.0)
    at = "middle right" if abs(gap) >= close else "bottom right" if gap > 0 else "top right"
    traces = [_line(data, "before", earlier, "dot", at), *_measured(data, name, pick)]
    return lay_out(data.series.period, traces, NUMBER_FORMAT, hover_format)


def time_figure(data: ChartData) -> Plot:
    """Draw percentiles of the assembly time; p95 is the one to watch."""
    p50, p99 = data.values(lambda f: f.p50_ms), data.values(lambda f: f.p99_ms)
    traces = [
        _line(data, "p50", p50, "solid", "middle right"),
        *_measured(data, "p95", lambda f: f.p95_ms),
        _line(data, "p99", p99, "dot", "middle right"),
    ]
    for trace in traces:
        del trace["text"]
    figure = lay_out(data.series.period, traces, NUMBER_FORMAT, ",.1f")
    figure.update_yaxes(ticksuffix=" ms")
    figure.update_layout(annotations=_percentile_names(data))
    return figure


def _percentile_names(data: ChartData) -> list[Json]:
    """Write the names of the percentiles at their last points, moved upwards where they would overlap."""
    known = [
        (moment, (f.p50_ms, f.p95_ms, f.p99_ms))
        for moment, f in zip(data.moments, data.series.points, strict=True)
        if f.p50_ms is not None and f.p95_ms is not None and f.p99_ms is not None
    ]
    if not known:
        return []
    top = max(p99 for _, (_, _, p99) in known) or 1.0
    last, values = known[-1]
    heights = spread_labels([value / top for value in values])
    names = texts_at(last, [height * top for height in heights], ("p50", "p95", "p99"))
    names[1]["font"]["color"] = ACCENT
    return names


def truncation_figure(data: ChartData) -> Plot:
    """Draw the share of assemblies that dropped something, as an area."""
    solid, *rest = _measured(data, "", lambda f: f.truncation_rate)
    solid.update(name="truncated")
    if None not in solid["y"]:  # an area would be drawn over the gaps
        solid.update(fill="tozeroy", fillcolor=SOFT)
    figure = lay_out(data.series.period, [solid, *rest], SHARE_FORMAT, SHARE_HOVER)
    figure.update_yaxes(range=[0, 1.02])
    return figure


def saved_figure(data: ChartData) -> Plot:
    """Draw the tokens saved against what would have been sent, the kinds stacked."""
    if len(data.kind_rows) > 1:
        return stacked_figure(data)
    values = data.values(_saved)
    colours = [COSTLY if (value or 0) < 0 else SAVED for value in values]
    return _bars(data, [_bar(data, "saved", values, data.rows, colours)])


def stacked_figure(data: ChartData) -> Plot:
    """Draw the bars of each kind stacked; extra costs go below zero."""
    bars = [
        _bar(
            data, kind_name(kind), [_saved(figures) for figures in points],
            data.kind_rows[kind], KIND_COLOURS[kind],
        )
        for kind, points in data.series.kinds.items()
    ]  # fmt: skip
    return stacked(_bars(data, bars))


def _saved(figures: Figures) -> float | None:
    return figures.tokens_saved if figures.tokens_before else None


def _bar(
    data: ChartData, name: str, values: Sequence[float | None], rows: str, colour: str | list[str]
) -> Json:
    return bar(
        name=name, x=data.moments, y=values, customdata=data.spans, meta={"rows": rows},
        hovertemplate=f"{plain(name)}: %{{y:,.0f}} tokens<extra></extra>",
        marker={"color": colour, "opacity": bar_opacities(data.series.period)},
    )  # fmt: skip


def _bars(data: ChartData, bars: list[Json]) -> Plot:
    figure = lay_out(data.series.period, bars, COUNT_FORMAT, ",.0f")
    figure.update_yaxes(zeroline=True)
    return figure


def utilisation_figure(data: ChartData) -> Plot:
    """Draw the share of the context's tokens that was used."""
    traces = _measured(data, "used", lambda f: f.utilisation)
    return lay_out(data.series.period, traces, SHARE_FORMAT, SHARE_HOVER)


def records_figure(data: ChartData) -> Plot:
    """Draw the records in a context, and the same figure one period earlier."""
    return _compared(data, "records", _records, ",.1f")


def _records(figures: Figures) -> float | None:
    return figures.records_included


CHARTS = {
    chart.slug: chart
    for chart in (
        Chart(
            "saved",
            "Tokens saved",
            "vs the last 10 records or the full context",
            (
                Column("Tokens saved", _saved, whole),
                Column("Without Contextopt", lambda f: f.tokens_before or None, whole),
                Column("Input tokens of conversations", lambda f: f.prompt_tokens or None, whole),
                Column("Cost after the cache, US dollars", lambda f: f.dollars, money),
                Column("Worth of the saving, US dollars", lambda f: f.saved_dollars, money),
            ),
            saved_figure,
            COUNT_FORMAT,
            ",.0f",
            "sort=saved",
        ),
        Chart(
            "ratio",
            "Compression ratio",
            "records included ÷ filtered; dotted: period before",
            (Column("Compression ratio", lambda f: f.ratio, ratio),),
            ratio_figure,
            NUMBER_FORMAT,
            RATIO_HOVER,
            "sort=dropped",
        ),
        Chart(
            "time",
            "Assembly time",
            "target p95 below 500 ms",
            (
                Column("p50 ms", lambda f: f.p50_ms, milliseconds),
                Column("p95 ms", lambda f: f.p95_ms, milliseconds),
                Column("p99 ms", lambda f: f.p99_ms, milliseconds),
            ),
            time_figure,
            NUMBER_FORMAT,
            ",.1f",
            "sort=slowest",
            lead=1,
            of_kind=True,
        ),
        Chart(
            "truncation",
            "Truncation rate",
            "share that dropped a record",
            (Column("Truncation rate", lambda f: f.truncation_rate, percent),),
            truncation_figure,
            SHARE_FORMAT,
            SHARE_HOVER,
            "truncated=yes&sort=dropped",
            of_kind=True,
        ),
        Chart(
            "utilisation",
            "Budget utilisation",
            "of the context budget; target 80–95 %",
            (Column("Budget utilisation", lambda f: f.utilisation, percent),),
            utilisation_figure,
            SHARE_FORMAT,
            SHARE_HOVER,
            "kind=space&sort=emptiest",
        ),
        Chart(
            "records",
            "Records per request",
            "space contexts; dotted: period before",
            (Column("Records per request", _records, tenths),),
            records_figure,
            NUMBER_FORMAT,
            ",.1f",
            "kind=space&sort=fewest",
        ),
    )
}


def draw_chart(chart: Chart, data: ChartData) -> Plot:
    """Draw a chart with its marks."""
    return finish(chart.build(data.of_kind if chart.of_kind else data), data, chart.rows)


def finish(figure: Plot, data: ChartData, rows: str) -> Plot:
    """Add the marks, the filters of the rows that a click opens, and zooming by dragging."""
    add_marks(figure, data.series.period, data.marks[:MARKS_SHOWN])
    period = data.series.period
    # A custom range has whole days, so less than a day cannot be zoomed into.
    can_zoom = period.days > 1
    ends = {"days": 7 if period.step == "week" else 1, "last": period.last_day.isoformat()}
    figure.update_layout(meta={"rows": rows, **ends}, dragmode="zoom" if can_zoom else False)
    # Ranges that the reader zoomed into belong to the period, not to the one shown next.
    figure.update_xaxes(fixedrange=not can_zoom, uirevision=f"{period.start} {period.edges[-1]}")
    return figure


def kind_name(kind: str) -> str:
    return {"handoff": "hand-off", "hint": "strategy hint", "agent": "agent context"}.get(kind, kind)


def _measured(data: ChartData, name: str, pick: Pick) -> list[Json]:
    """Draw the main line. The part leading to an incomplete bucket is dotted and ends hollow."""
    x, y, spans = data.moments, data.values(pick), data.spans
    line = {"color": ACCENT, "width": 2}
    label = {**_labelled(name, y, ACCENT, "middle right"), "meta": {"rows": data.rows}}
    if not data.series.period.is_incomplete:
        return [scatter(x=x, y=y, customdata=spans, line=line, **label)]
    texts = label.pop("text")
    solid = scatter(
        x=x[:-1], y=y[:-1], customdata=spans[:-1], line=line, marker={"color": ACCENT, "size": 5},
        # Both traces have the second-to-last point; the hollow one writes the name.
        text=[*texts[:-2], ""], **label,
    )  # fmt: skip
    tail = scatter(
        x=x[-2:], y=y[-2:], customdata=spans[-2:], text=texts[-2:], line={**line, "dash": "dot"},
        # The solid line already shows the value of the point before.
        hoverinfo=["skip", "all"],
        marker={"size": [0, 7], "symbol": "circle-open", "color": ACCENT},
        **{**label, "mode": "lines+markers+text", "name": f"{name} so far".strip()},
    )  # fmt: skip
    return [solid, tail]


def _line(data: ChartData, name: str, values: Sequence[float | None], dash: str, label_at: str) -> Json:
    """Draw a line for comparison: grey and thin."""
    return scatter(
        x=data.moments, y=values, customdata=data.spans, meta={"rows": data.rows},
        line={"color": MUTED, "width": 1.5, "dash": dash}, **_labelled(name, values, MUTED, label_at),
    )  # fmt: skip


def last_known(values: Sequence[float | None]) -> float:
    """Return the last value that is not missing; 0 if all are."""
    return next((value for value in reversed(values) if value is not None), 0.0)


def _mode(values: Sequence[float | None]) -> str:
    """Show markers if a lone point between gaps has no line to show it."""
    known = [value is not None for value in values]
    neighbours = zip([False, *known], known, [*known[1:], False], strict=False)
    is_lone = any(here and not (left or right) for left, here, right in neighbours)
    return "lines+markers" if is_lone else "lines"


def _labelled(name: str, values: Sequence[float | None], colour: str, label_at: str) -> dict[str, Any]:
    """Write the line's name at its last measured point instead of in a legend."""
    last = max((number for number, value in enumerate(values) if value is not None), default=-1)
    # Put an empty line between label and point: "top" and "bottom" alone move it by only half a line.
    label = {"top right": f" {name}<br> ", "bottom right": f" <br> {name}"}.get(label_at, f" {name}")
    return {
        "name": name,
        "mode": f"{_mode(values)}+text",
        "text": [label if number == last else "" for number in range(len(values))],
        "textposition": label_at,
        "cliponaxis": False,
        "textfont": {"color": colour, "size": 12},
    }
