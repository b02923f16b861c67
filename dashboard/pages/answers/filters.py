"""The filters of feedback and review."""

from datetime import datetime

from django import forms
from django.db.models import QuerySet

from contextopt.engine.agents.phases import MAX_PHASE_CHARS
from contextopt.inputs import BIGINT_MAX, INT_MAX
from contextopt.people.models import Team
from dashboard.kit.filters import STAGES, FilterForm, MomentField, PeriodForm, SpaceFilterForm
from memory.feedback.models import Rating, Vote
from memory.feedback.trends import VoteFilter
from memory.review.models import ItemState, Origin, ReviewItem


class FeedbackForm(SpaceFilterForm, PeriodForm):
    """Filters of the figures."""

    stage = forms.ChoiceField(choices=[("", "All stages"), *STAGES], required=False)
    phase = forms.CharField(max_length=MAX_PHASE_CHARS, required=False, strip=False)
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
    phase = forms.CharField(required=False, max_length=MAX_PHASE_CHARS, strip=False)
    reason = forms.CharField(required=False, max_length=64, strip=False)
    record = forms.IntegerField(required=False, min_value=1, max_value=BIGINT_MAX)
    start = MomentField()
    end = MomentField(is_end=True)

    def select(self, team: Team) -> QuerySet[Vote]:
        """Return the team's matching votes; none if the filters are invalid."""
        found = Vote.objects.of(team).with_subject().with_question()
        if not self.is_valid():
            return found.none()
        given = self.cleaned_data
        same = ("rating", "stage", "phase", "reason")
        others = {"space__slug": "space", "config_version": "version"}
        found = found.filter(**self.lookups(*same, **others, created_at__gte="start", created_at__lt="end"))
        if given["stage"] or given["version"] or given["record"]:
            found = found.with_context()
        if given["record"]:
            found = found.filter(assembly__payload__ledger__order__contains=[given["record"]])
        return found


class QueueForm(FilterForm):
    """Filters of the queue."""

    state = forms.ChoiceField(
        choices=[
            ("", "Waiting"),
            (ItemState.DONE, "Done"),
            (ItemState.WITHDRAWN, "Withdrawn"),
            ("all", "All"),
        ],
        required=False,
    )
    origin = forms.ChoiceField(choices=[("", "Any reason"), *Origin.choices], required=False)
    whose = forms.ChoiceField(
        choices=[("", "All items"), ("mine", "Assigned to me"), ("left", "Without my verdict")],
        required=False,
    )
    space = forms.SlugField(required=False, max_length=64)

    def select(self, team: Team, reviewer: str, user_id: int) -> QuerySet[ReviewItem]:
        """Return the team's matching items; none if the filters are invalid."""
        found = ReviewItem.objects.of(team).with_subject().with_question().with_own(reviewer)
        if not self.is_valid():
            return found.none()
        given = self.cleaned_data
        if given["state"] != "all":
            found = found.filter(state=given["state"] or ItemState.OPEN)
        found = found.filter(**self.lookups("origin", space__slug="space"))
        if given["whose"] == "mine":
            found = found.filter(assigned_to=user_id)
        return found.left_for(reviewer) if given["whose"] == "left" else found
