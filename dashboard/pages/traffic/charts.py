"""The charts of the page Traffic. Pure: figures in, plots out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dashboard.kit.charts.panels import Column, ColumnChart
from dashboard.kit.charts.plots import (
    ACCENT,
    COSTLY,
    COUNT_FORMAT,
    MUTED,
    NUMBER_FORMAT,
    Plot,
    bar,
    bar_opacities,
    lay_out,
    point_symbols,
    scatter,
    stacked,
    wall_clock,
    with_legend,
)
from dashboard.kit.formats import milliseconds, whole
from dashboard.kit.periods import Period
from dashboard.rollups.traffic import Traffic

UNKNOWN = "var(--line)"


@dataclass(frozen=True, slots=True)
class TrafficData:
    """The figures of each bucket, and the URLs of its prompts."""

    period: Period
    points: Sequence[Traffic]
    links: list[str]


def without_count(traffic: Traffic) -> int:
    return traffic.without


def audited_count(traffic: Traffic) -> int:
    """Return the number of prompts that passed unchanged because of audit mode alone."""
    return traffic.requests - traffic.inserted - traffic.without


def fresh_tokens(traffic: Traffic) -> int:
    """Return the input tokens that did not come from a cache, of prompts with a count."""
    return traffic.cached_input_tokens - traffic.cached_tokens


def uncounted_tokens(traffic: Traffic) -> int:
    """Return the input tokens of prompts whose provider did not report cached ones."""
    return traffic.input_tokens - traffic.cached_input_tokens


def prompts_figure(data: TrafficData) -> Plot:
    """Draw prompts by what became of their contexts, stacked."""
    return _stacked(
        data,
        ("context inserted", ACCENT, lambda traffic: traffic.inserted),
        ("audited", MUTED, audited_count),
        ("without context", COSTLY, without_count),
    )


def tokens_figure(data: TrafficData) -> Plot:
    """Draw input tokens by what the provider's cache did, stacked."""
    return _stacked(
        data,
        ("cached", ACCENT, lambda traffic: traffic.cached_tokens),
        ("not cached", MUTED, fresh_tokens),
        ("not reported", UNKNOWN, uncounted_tokens),
    )


def _stacked(data: TrafficData, *layers: tuple[str, str, Callable[[Traffic], int]]) -> Plot:
    x = wall_clock(data.period)
    bars = [
        bar(
            name=name, x=x, y=[pick(point) if point.requests else None for point in data.points],
            customdata=data.links, marker={"color": colour, "opacity": bar_opacities(data.period)},
        )
        for name, colour, pick in layers
    ]  # fmt: skip
    return stacked(lay_out(data.period, bars, COUNT_FORMAT, ",.0f"))


def added_figure(data: TrafficData) -> Plot:
    """Draw the median and the 95th percentile of the time added."""
    x = wall_clock(data.period)
    lines = [
        scatter(
            name=name, x=x, y=[point.added_ms(share) for point in data.points], customdata=data.links,
            mode="lines+markers", line={"color": colour, "width": 2},
            marker={"size": 4, "color": colour, "symbol": point_symbols(data.period)},
        )
        for name, share, colour in (("p50", 0.5, ACCENT), ("p95", 0.95, COSTLY))
    ]  # fmt: skip
    figure = lay_out(data.period, lines, NUMBER_FORMAT, ",.1f")
    figure.update_yaxes(ticksuffix=" ms")
    return with_legend(figure)


_CHARTS: tuple[ColumnChart[Traffic, TrafficData], ...] = (
    ColumnChart(
        "prompts",
        "Prompts",
        "by what became of their contexts",
        (
            Column("Inserted", lambda traffic: traffic.inserted, whole),
            Column("Audited", audited_count, whole),
            Column("Without context", without_count, whole),
        ),
        prompts_figure,
    ),
    ColumnChart(
        "tokens",
        "Input tokens",
        "by what the provider's cache did",
        (
            Column("Cached", lambda traffic: traffic.cached_tokens, whole),
            Column("Not cached", fresh_tokens, whole),
            Column("Not reported", uncounted_tokens, whole),
        ),
        tokens_figure,
    ),
    ColumnChart(
        "added",
        "Time added",
        "milliseconds; median and 95th percentile",
        (
            Column("p50", lambda traffic: traffic.added_ms(0.5), milliseconds),
            Column("p95", lambda traffic: traffic.added_ms(0.95), milliseconds),
        ),
        added_figure,
    ),
)
TRAFFIC_CHARTS = {chart.slug: chart for chart in _CHARTS}
