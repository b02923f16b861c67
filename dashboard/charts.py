"""The overview's charts: rows in, Plotly figures out. Pure: no database, no clock, no theme.

A colour is the name of a CSS variable, which `charts.js` replaces by the theme's. A point carries the address
of the assemblies behind it as its custom data. To add a chart, write its `build` function and its columns, and
register it in `CHARTS`: page, table view and CSV follow from that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import plotly.graph_objects as go

from dashboard.formats import decimals, milliseconds, percent, whole
from dashboard.metrics import Figures, Series
from dashboard.periods import Bucket, Period

ACCENT, MUTED, SAVED, COSTLY = "var(--accent)", "var(--ink-3)", "var(--context)", "var(--warn)"
SOFT = "var(--accent-soft)"

type Link = Callable[[Bucket], str]
type Pick = Callable[[Figures], float | None]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table view and the CSV."""

    name: str
    pick: Pick
    show: Callable[[float | None], str]


@dataclass(frozen=True, slots=True)
class Chart:
    slug: str
    title: str
    note: str
    columns: tuple[Column, ...]
    build: Callable[[Series, Series, Link], go.Figure]


def ratio_figure(series: Series, before: Series, link: Link) -> go.Figure:
    """The share of filtered records that entered, over the same share one period earlier."""
    earlier = go.Scatter(
        x=_moments(series.period),
        y=[figures.ratio for figures in before.points],
        line={"color": MUTED, "width": 1.5, "dash": "dot"},
        **_labelled("before", [figures.ratio for figures in before.points], MUTED),
    )
    return _figure(
        series.period, [earlier, *_measured(series, link, "now", lambda f: f.ratio)], ".2~f", ".2f"
    )


def time_figure(series: Series, before: Series, link: Link) -> go.Figure:
    """Percentiles of the assembly time; p95 is the one to watch."""
    p50 = [figures.p50_ms for figures in series.points]
    p99 = [figures.p99_ms for figures in series.points]
    x, links = _moments(series.period), _links(series, link)
    traces = [
        go.Scatter(x=x, y=p50, customdata=links, line={"color": MUTED, "width": 1.5}, **_labelled("p50", p50, MUTED)),
        *_measured(series, link, "p95", lambda f: f.p95_ms),
        go.Scatter(
            x=x, y=p99, customdata=links, line={"color": MUTED, "width": 1.5, "dash": "dot"},
            **_labelled("p99", p99, MUTED),
        ),
    ]  # fmt: skip
    return _figure(series.period, traces, ",.2~f", ",.1f")


def truncation_figure(series: Series, before: Series, link: Link) -> go.Figure:
    """The share of assemblies that dropped something, as a filled line."""
    solid, *rest = _measured(series, link, "", lambda f: f.truncation_rate)
    solid.update(fill="tozeroy", fillcolor=SOFT, name="truncated")
    figure = _figure(series.period, [solid, *rest], ".0%", ".1%")
    figure.update_yaxes(range=[0, 1.02])
    return figure


def saved_figure(series: Series, before: Series, link: Link) -> go.Figure:
    """Tokens saved against stage 3; a bar below zero is a bucket that cost more."""
    values = [figures.tokens_saved if figures.tokens_before else None for figures in series.points]
    colours = [COSTLY if (value or 0) < 0 else SAVED for value in values]
    bar = go.Bar(
        name="saved", x=_moments(series.period), y=values, customdata=_links(series, link),
        marker={"color": colours, "opacity": _opacities(series.period)},
    )  # fmt: skip
    return _figure(series.period, [bar], "~s", ",.0f", zeroline=True)


CHARTS = {
    chart.slug: chart
    for chart in (
        Chart(
            "ratio",
            "Compression ratio",
            "included ÷ filtered; dotted: the period before",
            (Column("Compression ratio", lambda f: f.ratio, decimals),),
            ratio_figure,
        ),
        Chart(
            "time",
            "Assembly time",
            "milliseconds; target p95 below 500",
            (
                Column("p50 ms", lambda f: f.p50_ms, milliseconds),
                Column("p95 ms", lambda f: f.p95_ms, milliseconds),
                Column("p99 ms", lambda f: f.p99_ms, milliseconds),
            ),
            time_figure,
        ),
        Chart(
            "truncation",
            "Truncation rate",
            "assemblies that dropped something",
            (Column("Truncation rate", lambda f: f.truncation_rate, percent),),
            truncation_figure,
        ),
        Chart(
            "saved",
            "Tokens saved",
            "against stage 3 on the same text",
            (
                Column("Tokens saved", lambda f: f.tokens_saved if f.tokens_before else None, whole),
                Column("Stage 3 would have used", lambda f: f.tokens_before or None, whole),
            ),
            saved_figure,
        ),
    )
}


def _measured(series: Series, link: Link, name: str, pick: Pick) -> list[go.Scatter]:
    """The line of interest. What leads to a bucket that is not over yet is dashed and ends hollow."""
    x, y, links = _moments(series.period), [pick(figures) for figures in series.points], _links(series, link)
    if not series.period.is_incomplete:
        line = {"color": ACCENT, "width": 2}
        return [go.Scatter(x=x, y=y, customdata=links, line=line, **_labelled(name, y, ACCENT))]
    solid = go.Scatter(
        name=name, x=x[:-1], y=y[:-1], customdata=links[:-1], mode=_mode(y[:-1]),
        line={"color": ACCENT, "width": 2}, marker={"color": ACCENT, "size": 5},
    )  # fmt: skip
    tail = go.Scatter(
        x=x[-2:], y=y[-2:], customdata=links[-2:],
        line={"color": ACCENT, "width": 2, "dash": "dot"},
        marker={"size": [0, 7], "symbol": "circle-open", "color": ACCENT},
        **{**_labelled(name, y[-2:], ACCENT), "mode": "lines+markers+text", "name": f"{name} so far".strip()},
    )  # fmt: skip
    return [solid, tail]


def _mode(values: Sequence[float | None]) -> str:
    """A lone point between gaps has no line to show it."""
    known = [value is not None for value in values]
    neighbours = zip([False, *known], known, [*known[1:], False], strict=False)
    return (
        "lines+markers" if any(here and not (left or right) for left, here, right in neighbours) else "lines"
    )


def _labelled(name: str, values: Sequence[float | None], colour: str) -> dict[str, Any]:
    """Write the line's name at its last measured point instead of in a legend."""
    last = max((number for number, value in enumerate(values) if value is not None), default=-1)
    return {
        "name": name,
        "mode": "lines+text" if _mode(values) == "lines" else "lines+markers+text",
        "text": [f" {name}" if number == last else "" for number in range(len(values))],
        "textposition": "middle right",
        "cliponaxis": False,
        "textfont": {"color": colour, "size": 12},
    }


def _moments(period: Period) -> list[datetime]:
    """Bucket starts by the team's wall clock: the chart knows no time zones."""
    return [bucket.start.astimezone(period.zone).replace(tzinfo=None) for bucket in period.buckets]


def _links(series: Series, link: Link) -> list[str]:
    return [link(bucket) for bucket in series.period.buckets]


def _opacities(period: Period) -> list[float]:
    whole_buckets = len(period.edges) - 1
    return [1.0] * (whole_buckets - 1) + [0.5 if period.is_incomplete else 1.0]


def _figure(
    period: Period, traces: list[Any], tick_format: str, hover_format: str, *, zeroline: bool = False
) -> go.Figure:
    return go.Figure(
        traces,
        {
            "template": {},
            "margin": {"l": 52, "r": 48, "t": 8, "b": 28},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": MUTED, "size": 12},
            "hovermode": "x unified",
            "hoverlabel": {
                "bgcolor": "var(--surface)", "bordercolor": "var(--line)", "font": {"color": "var(--ink)"},
            },
            "showlegend": False,
            "bargap": 0.35,
            "uirevision": "constant",
            "xaxis": {
                "type": "date", "showgrid": False, "zeroline": False, "nticks": 6, "tickangle": 0, "fixedrange": True,
                "linecolor": "var(--line)", "tickformat": "%H:%M" if period.step == "hour" else "%-d %b",
                "hoverformat": "%-d %b %H:%M" if period.step == "hour" else "%A %-d %B",
            },
            "yaxis": {
                "gridcolor": "var(--line)", "zeroline": zeroline, "zerolinecolor": MUTED, "rangemode": "tozero",
                "nticks": 5, "fixedrange": True, "tickformat": tick_format, "hoverformat": hover_format,
            },
        },
    )  # fmt: skip
