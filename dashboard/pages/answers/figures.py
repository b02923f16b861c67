"""The figures of the feedback page: filters, figures over time, and groups with their bars."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django import forms
from django.db.models import QuerySet
from django.urls import reverse

from contextopt.agents.models import PHASE_MAX
from contextopt.inputs import BIGINT_MAX, INT_MAX
from contextopt.models import Team
from dashboard.kit.charts.shapes import Segment, stack_parts
from dashboard.kit.charts.tiles import Tile, describe_change, describe_growth, in_points, points, unit
from dashboard.kit.filters import STAGE_NAMES, STAGES, FilterForm, MomentField, PeriodForm, SpaceFilterForm
from dashboard.kit.formats import compact, whole
from dashboard.kit.periods import Bucket, Period
from memory.feedback.trends import Group, RecordTrend, VoteFigures, VoteFilter, read_vote_series
from memory.models import Rating, Vote


class FeedbackForm(SpaceFilterForm, PeriodForm):
    """Filters of the figures."""

    stage = forms.ChoiceField(choices=[("", "All stages"), *STAGES], required=False)
    phase = forms.CharField(max_length=PHASE_MAX, required=False, strip=False)
    version = forms.IntegerField(required=False, min_value=1, max_value=INT_MAX)

    def to_votes(self, now: datetime) -> VoteFilter:
        """Return the filter; invalid fields are ignored."""
        given = self.cleaned_data
        stage = given.get("stage")
        period = self.period(now)
        return VoteFilter(
            team_id=self.team.pk,
            start=period.start,
            until=period.until,
            space_id=self.space_id,
            stage=int(stage) if stage else None,
            config_version=given.get("version"),
            phase=given.get("phase") or None,
        )


class VotesForm(FilterForm):
    """Filters of the list of votes."""

    rating = forms.ChoiceField(choices=[("", "All votes"), *Rating.choices], required=False)
    space = forms.SlugField(required=False, max_length=64)
    stage = forms.IntegerField(required=False, min_value=2, max_value=5)
    version = forms.IntegerField(required=False, min_value=1, max_value=INT_MAX)
    phase = forms.CharField(required=False, max_length=PHASE_MAX, strip=False)
    reason = forms.CharField(required=False, max_length=64, strip=False)
    record = forms.IntegerField(required=False, min_value=1, max_value=BIGINT_MAX)
    start = MomentField(required=False, max_length=40)
    end = MomentField(is_end=True, required=False, max_length=40)

    FIELDS = {  # noqa: RUF012
        "rating": "rating", "space": "space__slug", "stage": "stage", "version": "config_version",
        "phase": "phase", "reason": "reason", "start": "created_at__gte", "end": "created_at__lt",
    }  # fmt: skip

    def select(self, team: Team) -> QuerySet[Vote]:
        """Return the team's matching votes; none if the filters are invalid."""
        found = Vote.objects.of(team).with_subject().with_question()
        if not self.is_valid():
            return found.none()
        given = self.cleaned_data
        found = found.filter(**{field: given[name] for name, field in self.FIELDS.items() if given[name]})
        if given["stage"] or given["version"] or given["record"]:
            found = found.with_context()
        if given["record"]:
            found = found.filter(assembly__payload__ledger__order__contains=[given["record"]])
        return found


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
            links.to(version=group.key, space=group.space, rating="down"), _settings_address(group),
        )
        for group in groups
    ]  # fmt: skip


def _settings_address(group: Group) -> str:
    return f"{reverse('dashboard:space_settings', args=[group.space])}#version-{group.key}"


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
