"""The headline charts of a young period: each assembly is a dot, over the time in which there are any."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import ceil
from statistics import median

from dashboard.kit.charts.plots import ACCENT, COUNT_FORMAT, NUMBER_FORMAT, Json, Plot, bar, lay_out, scatter
from dashboard.kit.formats import milliseconds, whole
from dashboard.kit.periods import Bucket
from dashboard.pages.overview.charts import RATIO_HOVER, ChartData, bucket_query
from dashboard.pages.overview.figures import Series
from dashboard.rollups.queries import LogRow

# Lengths between two dates of the time axis, the shortest first.
STEPS = (
    *(timedelta(minutes=minutes) for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)),
    *(timedelta(days=days) for days in (1, 2, 7, 14, 30, 90)),
)
STEPS_SHOWN = 6
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
GREY = "var(--line-strong)"


@dataclass(frozen=True, slots=True)
class Span:
    """The time that the charts show, by the team's clock: `steps` lengths of `step` from `start`."""

    start: datetime
    step: timedelta
    steps: int

    @property
    def end(self) -> datetime:
        return self.start + self.steps * self.step

    @property
    def edges(self) -> list[datetime]:
        return [self.start + number * self.step for number in range(self.steps + 1)]


def span_of(moments: Sequence[datetime]) -> Span:
    """Return the shortest span of round times that has all of the moments, oldest first."""
    first, last = moments[0], moments[-1] + SECOND
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    for step in STEPS:
        start = midnight + (first - midnight) // step * step
        steps = max(1, ceil((last - start) / step))
        if steps <= STEPS_SHOWN:
            break
    return Span(start, step, steps)


def local_moments(series: Series) -> list[datetime]:
    """Return the times of the period's assemblies by the team's clock, oldest first."""
    return [_local(row, series) for row in series.log]


def describe_span(series: Series) -> str:
    """Return the time in which there are assemblies: 7 Dec 2026, 14:10 – 14:40."""
    first, last = (moments := local_moments(series))[0], moments[-1]
    begin = f"{first.day} {first:%b %Y, %H:%M}"
    if first.replace(second=0, microsecond=0) == last.replace(second=0, microsecond=0):
        return begin
    same_day = first.date() == last.date()
    return f"{begin} – {f'{last:%H:%M}' if same_day else f'{last.day} {last:%b %Y, %H:%M}'}"


def _local(row: LogRow, series: Series) -> datetime:
    return row.created_at.astimezone(series.period.zone).replace(tzinfo=None)


def young_figures(data: ChartData) -> dict[str, Plot]:
    """Return the three headline charts by slug."""
    series = data.series
    own = [row for row in series.log if row.kind == series.kind]
    span = span_of(local_moments(series))
    ratios = [(row, row.ratio) for row in series.log if row.ratio is not None]
    ratio = _dots(data, span, "kept", ratios, RATIO_HOVER)
    time = _dots(data.of_kind, span, "time", [(row, row.ms) for row in own], ",.1f")
    time.update_yaxes(ticksuffix=" ms")
    return {"ratio": ratio, "time": time, "truncation": _counts(data.of_kind, span, own)}


def young_heads(series: Series) -> dict[str, tuple[str, str]]:
    """Return the figure and the note of each headline chart: exact values, and no rates."""
    own = [row for row in series.log if row.kind == series.kind]
    known = sorted((row for row in series.log if row.ratio is not None), key=lambda row: row.ratio or 0.0)
    heads = {"ratio": ("–", "no records passed a filter"), "time": ("–", ""), "truncation": ("–", "")}
    if known:
        row = known[(len(known) - 1) // 2]
        kept = f"{whole(row.records_included)} of {whole(row.records_filtered)}"
        heads["ratio"] = (kept, "records kept" if len(known) == 1 else "records kept, median")
    if own:
        cut = sum(row.truncated for row in own)
        ms = f"{milliseconds(median(row.ms for row in own))} ms"
        heads["time"] = (ms, "median" if len(own) > 1 else "the only one so far")
        heads["truncation"] = (f"{cut} of {len(own)}", "truncated")
    return heads


def _dots(
    data: ChartData, span: Span, name: str, values: Sequence[tuple[LogRow, float]], hover_format: str
) -> Plot:
    trace = scatter(
        name=name, mode="markers", meta={"rows": data.rows},
        x=[_local(row, data.series).isoformat() for row, _ in values],
        y=[value for _, value in values],
        customdata=[_row_query(row) for row, _ in values],
        marker={"color": ACCENT, "size": 8, "opacity": 0.75},
    )  # fmt: skip
    plot = lay_out(data.series.period, [trace], NUMBER_FORMAT, hover_format)
    if not values:
        plot.update_yaxes(range=[0, 1], showticklabels=False)
    return _over(span, plot)


def _row_query(row: LogRow) -> str:
    second = row.created_at.replace(microsecond=0)
    return bucket_query(Bucket(second, second + SECOND))


def _counts(data: ChartData, span: Span, rows: Sequence[LogRow]) -> Plot:
    """Count the truncated and the whole contexts of each step, one on the other."""
    bars = [
        _bar(data, span, "truncated", ACCENT, [row for row in rows if row.truncated]),
        _bar(data, span, "whole", GREY, [row for row in rows if not row.truncated]),
    ]
    plot = lay_out(data.series.period, bars, COUNT_FORMAT, ",.0f")
    plot.update_layout(barmode="relative")
    return _over(span, plot)


def _bar(data: ChartData, span: Span, name: str, colour: str, rows: Sequence[LogRow]) -> Json:
    moments = [_local(row, data.series) for row in rows]
    counts = [sum(edge <= moment < edge + span.step for moment in moments) for edge in span.edges[:-1]]
    edges = [edge.replace(tzinfo=data.series.period.zone).astimezone(UTC) for edge in span.edges]
    return bar(
        name=name, y=counts, meta={"rows": data.rows},
        x=[(edge + span.step / 2).isoformat() for edge in span.edges[:-1]],
        customdata=[bucket_query(Bucket(*ends)) for ends in pairwise(edges)],
        marker={"color": colour},
    )  # fmt: skip


def _over(span: Span, plot: Plot) -> Plot:
    """Set the time axis to the span. It can be neither zoomed nor dragged."""
    is_hours = span.step < DAY
    pad = span.step * span.steps / 24
    plot.update_xaxes(
        range=[(span.start - pad).isoformat(), (span.end + pad).isoformat()],
        tick0=span.start.isoformat(), dtick=span.step / SECOND * 1_000, nticks=0,
        tickformat="%H:%M" if is_hours else "%-d %b", hoverformat="%-d %b %H:%M:%S",
        uirevision=f"{span.start} {span.end}",
    )  # fmt: skip
    plot.update_layout(meta={"rows": ""}, dragmode=False)
    return plot
