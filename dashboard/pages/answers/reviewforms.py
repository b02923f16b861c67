"""The forms of the review."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.db.models import QuerySet

from contextopt.models import Team
from dashboard.kit.filters import FilterForm
from dashboard.kit.forms import InputForm, NotesField, read_ticks
from memory.models import ItemState, Origin, ReviewItem, ReviewRules, Verdict
from memory.review.inputs import RulesPatch, VerdictIn
from memory.review.models import NOTE_MAX, VERDICTS_MAX


class VerdictForm(InputForm[VerdictIn]):
    """A verdict; related records are ticked in the table of the answer's context."""

    input_type = VerdictIn
    verdict = forms.ChoiceField(choices=Verdict.choices, error_messages={"required": "Choose a verdict."})
    note = NotesField(required=False, max_length=NOTE_MAX)

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        return {**cleaned, "record_ids": self._ticks}

    @property
    def ticked(self) -> list[int]:
        """The ticked records, to show them again if the verdict is refused."""
        return read_ticks(self._ticks)

    @property
    def _ticks(self) -> list[str]:
        data: Any = self.data
        ticks: list[str] = data.getlist("record_ids")
        return ticks[:1_000]


class RulesForm(InputForm[RulesPatch]):
    input_type = RulesPatch
    takes_disliked = forms.BooleanField(required=False, label="All downvoted answers")
    sample_percent = forms.FloatField(
        label="Random sample of other assemblies (%)", min_value=0, max_value=100,
        widget=forms.NumberInput(attrs={"step": "any"}),
    )  # fmt: skip
    verdicts_wanted = forms.TypedChoiceField(
        label="Verdicts per item",
        choices=[(n, str(n)) for n in range(1, VERDICTS_MAX + 1)],
        coerce=int,
    )

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(cleaned)
        share = given.pop("sample_percent") / 100
        return {**given, "sample_share": share}

    @classmethod
    def of(cls, rules: ReviewRules) -> "RulesForm":
        return cls(
            initial={
                "takes_disliked": rules.takes_disliked,
                "sample_percent": f"{rules.sample_share * 100:g}",
                "verdicts_wanted": rules.verdicts_wanted,
            }
        )


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
        if given["origin"]:
            found = found.filter(origin=given["origin"])
        if given["space"]:
            found = found.filter(space__slug=given["space"])
        if given["whose"] == "mine":
            found = found.filter(assigned_to=user_id)
        return found.left_for(reviewer) if given["whose"] == "left" else found
