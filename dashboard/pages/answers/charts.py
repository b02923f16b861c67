"""The charts of the feedback page. Pure: rows in, figures out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dashboard.kit.charts.panels import Column, ColumnChart
from dashboard.kit.charts.plots import (
    ACCENT,
    COUNT_FORMAT,
    MUTED,
    SAVED,
    Json,
    Plot,
    bar,
    bar_opacities,
    lay_out,
    scatter,
    wall_clock,
)
from dashboard.kit.formats import percent, whole
from dashboard.kit.periods import Bucket
from dashboard.pages.answers.figures import VoteSeries
from memory.feedback.trends import VoteFigures

DOWNVOTED = "var(--bad)"

type VoteLink = Callable[[Bucket], str]


@dataclass(frozen=True, slots=True)
class VoteData:
    """The data of a figure; `link` returns the URL of a bucket's votes."""

    series: VoteSeries
    before: VoteSeries
    link: VoteLink

    @property
    def links(self) -> list[str]:
        return [self.link(bucket) for bucket in self.series.period.buckets]


def liked_figure(data: VoteData) -> Plot:
    """Draw the share of upvotes, and the same share one period earlier."""
    x = wall_clock(data.series.period)
    earlier = scatter(
        name="before", x=x, y=[point.liked_rate for point in data.before.points], customdata=data.links,
        mode="lines+markers", marker={"size": 3, "color": MUTED},
        line={"color": MUTED, "width": 1.5, "dash": "dot"},
    )  # fmt: skip
    figure = lay_out(data.series.period, [earlier, *_liked_now(data, x)], ".0%", ".0%")
    figure.update_yaxes(range=[0, 1.04])
    return figure


def _liked_now(data: VoteData, x: Sequence[str]) -> list[Json]:
    """Draw the line. The part leading to an incomplete bucket is dotted and ends hollow."""
    y, links = [point.liked_rate for point in data.series.points], data.links
    line = {"color": ACCENT, "width": 2}
    over = len(y) - data.series.period.is_incomplete
    solid = scatter(
        name="now", x=x[:over], y=y[:over], customdata=links[:over], mode="lines+markers",
        marker={"size": 5, "color": ACCENT}, line=line,
    )  # fmt: skip
    if over == len(y):
        return [solid]
    tail = scatter(
        name="now, so far", x=x[-2:], y=y[-2:], customdata=links[-2:], mode="lines+markers",
        # The solid line already shows the value of the point before.
        hoverinfo=["skip", "all"],
        marker={"size": [0, 7], "symbol": "circle-open", "color": ACCENT}, line={**line, "dash": "dot"},
    )  # fmt: skip
    return [solid, tail]


def votes_figure(data: VoteData) -> Plot:
    """Draw upvotes above zero, downvotes below."""
    x, rows = wall_clock(data.series.period), data.series.points
    opacity = bar_opacities(data.series.period)
    bars = [
        bar(name=name, x=x, y=values, customdata=data.links, marker={"color": colour, "opacity": opacity})
        for name, colour, values in (
            ("up", SAVED, [point.up if point.votes else None for point in rows]),
            ("down", DOWNVOTED, [-point.down if point.votes else None for point in rows]),
        )
    ]
    figure = lay_out(data.series.period, bars, COUNT_FORMAT, ",.0f")
    figure.update_yaxes(zeroline=True)
    figure.update_layout(barmode="relative")
    return figure


_CHARTS: tuple[ColumnChart[VoteFigures, VoteData], ...] = (
    ColumnChart(
        "liked",
        "Upvoted answers",
        "share of upvotes; dotted: period before",
        (Column("Upvote rate", lambda f: f.liked_rate, percent),),
        liked_figure,
    ),
    ColumnChart(
        "votes",
        "Votes",
        "upvotes above the line, downvotes below",
        (
            Column("Upvotes", lambda f: f.up, whole),
            Column("Downvotes", lambda f: f.down, whole),
        ),
        votes_figure,
    ),
)
VOTE_CHARTS = {chart.slug: chart for chart in _CHARTS}
