"""The figures of the feedback page: over time, and by group with bars."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.urls import reverse

from dashboard.kit.charts.shapes import Segment, stack_parts
from dashboard.kit.charts.tiles import Tile, describe_change, describe_growth, in_points, points, unit
from dashboard.kit.filters import STAGE_NAMES
from dashboard.kit.formats import compact, whole
from dashboard.kit.periods import Bucket, Period
from dashboard.pages.answers.filters import FeedbackForm
from memory.feedback.trends import Group, RecordTrend, VoteFigures, VoteFilter, read_vote_series


@dataclass(frozen=True, slots=True)
class VoteSeries:
    """Figures of each bucket of a period, and of the whole period."""

    period: Period
    total: VoteFigures
    points: tuple[VoteFigures, ...]


def read_series(wanted: VoteFilter, period: Period) -> VoteSeries:
    total, found = read_vote_series(wanted, period.edges)
    return VoteSeries(period, total, found)


def build_vote_tiles(now: VoteFigures, before: VoteFigures) -> list[Tile]:
    return [
        Tile(
            "liked", "Upvote rate", points(now.liked_rate), unit(now.liked_rate),
            describe_change(now.liked_rate, before.liked_rate, "higher", in_points), "of all votes",
        ),
        Tile(
            "votes", "Votes", *compact(now.votes),
            describe_growth(now.votes, before.votes, "none"),
            f"{whole(before.votes)} in the period before",
        ),
        Tile(
            "up", "Upvotes", *compact(now.up),
            describe_growth(now.up, before.up, "higher"), "in this period",
        ),
        Tile(
            "down", "Downvotes", *compact(now.down),
            describe_growth(now.down, before.down, "lower"), "to look into",
        ),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group of votes with its bar, and the URL of its downvoted answers."""

    name: str
    note: str
    figures: VoteFigures
    bar: tuple[Segment, ...]
    url: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Links:
    """URLs of lists of votes, under the page's own filters."""

    kept: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, form: FeedbackForm, wanted: VoteFilter) -> "Links":
        given = {name: form.cleaned_data.get(name) for name in ("space", "stage", "version", "phase")}
        span = {"start": _moment(wanted.start), "end": _moment(wanted.until)}
        return cls(tuple((name, str(value)) for name, value in (given | span).items() if value))

    def to(self, **changes: str) -> str:
        query = {name: value for name, value in (dict(self.kept) | changes).items() if value}
        return f"{reverse('dashboard:feedback_votes')}?{urlencode(query)}"

    def bucket(self, bucket: Bucket) -> str:
        return self.to(start=_moment(bucket.start), end=_moment(bucket.end))


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}".replace(".000000Z", "Z")


def _bar(figures: VoteFigures) -> tuple[Segment, ...]:
    return stack_parts([("context", figures.up), ("over", figures.down)], figures.votes)


def stage_rows(groups: Iterable[Group], links: Links) -> list[GroupRow]:
    return [
        GroupRow(
            f"Stage {group.key}", STAGE_NAMES.get(int(group.key), ""), group.figures, _bar(group.figures),
            links.to(stage=group.key, rating="down"),
        )
        for group in groups
    ]  # fmt: skip


def config_rows(groups: Iterable[Group], links: Links) -> list[GroupRow]:
    return [
        GroupRow(
            f"v{group.key}", group.space_name, group.figures, _bar(group.figures),
            links.to(version=group.key, space=group.space, rating="down"),
            f"{reverse('dashboard:space_settings', args=[group.space])}#version-{group.key}",
        )
        for group in groups
    ]  # fmt: skip


def named_rows(groups: Iterable[Group], links: Links, field: str) -> list[GroupRow]:
    """Return rows of groups that are named by their own key."""
    return [
        GroupRow(
            group.key, "", group.figures, _bar(group.figures), links.to(rating="down", **{field: group.key})
        )
        for group in groups
    ]  # fmt: skip


def reason_rows(groups: Iterable[Group], links: Links, downvotes: int) -> list[GroupRow]:
    """Return the reasons of downvotes, and a row for the downvotes without one."""
    rows = named_rows((group for group in groups if group.figures.down), links, "reason")
    unreasoned = VoteFigures(down=downvotes - sum(row.figures.down for row in rows))
    if unreasoned.down:
        rows.append(GroupRow("no reason given", "", unreasoned, _bar(unreasoned), url=""))
    return rows


def record_rows(found: Iterable[RecordTrend], links: Links) -> list[GroupRow]:
    return [
        GroupRow(
            item.title, item.space_name, item.figures, _bar(item.figures),
            links.to(record=str(item.record_id), rating="down"),
            reverse("dashboard:record", args=[item.space, item.record_id]) + "?from=review",
        )
        for item in found
    ]  # fmt: skip
