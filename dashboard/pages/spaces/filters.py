"""The filters of spaces, and of the search in them."""

from decimal import Decimal
from typing import Any, Literal, cast

from django import forms
from django.db.models import QuerySet

from contextopt.assemblies.inputs import AssemblyIn
from contextopt.inputs import QUERY_MAX
from contextopt.limits import MODEL_MAX
from contextopt.people.models import Team
from contextopt.spaces import models as limits
from contextopt.spaces.models import Record, Space
from dashboard.kit.filters import STAGES, URL_TEXT_MAX, FilterForm, MomentField, offered_spaces
from memory.search.inputs import SearchIn

RESULTS_SHOWN = 20
KINDS = [("", "All kinds"), ("record", "Records"), ("memory", "Memories")]
BUDGETS = [("", "From settings"), ("fixed", "Fixed"), ("adaptive", "Adaptive")]


class RecordsForm(FilterForm):
    """Filters of a space's records."""

    type = forms.CharField(max_length=64, required=False)
    tag = forms.CharField(max_length=100, required=False)
    source = forms.CharField(max_length=200, required=False)
    show = forms.ChoiceField(
        choices=[("", "Live records"), ("pinned", "Pinned"), ("deleted", "Deleted")], required=False
    )

    def select(self, space: Space) -> QuerySet[Record]:
        """Return the space's matching records, without their notes; none if the filters are invalid."""
        found = Record.objects.filter(space=space).defer("notes", "metadata", "summary", "content_hash")
        if not self.is_valid():
            return found.none()
        given = self.cleaned_data
        found = found.filter(deleted_at__isnull=given["show"] != "deleted")
        if given["show"] == "pinned":
            found = found.filter(pinned=True)
        if given["tag"]:
            found = found.filter(tags__contains=[given["tag"]])
        return found.filter(**self.lookups("type", "source"))


class PreviewForm(FilterForm):
    """The preview's deviations from the space's own settings."""

    question = forms.CharField(max_length=QUERY_MAX, required=False)
    stage = forms.ChoiceField(
        choices=[("", "Automatic"), *reversed(STAGES)],
        required=False,
    )
    window = forms.ChoiceField(
        choices=[
            ("", "From settings"),
            ("7", "7 days"),
            ("14", "14 days"),
            ("30", "30 days"),
            ("all", "All"),
        ],
        required=False,
        label="Date window",
    )
    budget = forms.ChoiceField(choices=BUDGETS, required=False)
    model = forms.CharField(max_length=MODEL_MAX, required=False)
    share = forms.IntegerField(min_value=0, max_value=100, required=False, label="Share of its window")
    as_of = MomentField(label="As of")

    def to_request(self, space: Space) -> AssemblyIn:
        """Return the request; the form must be valid."""
        given = self.cleaned_data
        window = given["window"]
        return AssemblyIn(
            space=space.slug,
            query=given["question"],
            stage=cast(Literal[2, 3, 4, 5], int(given["stage"])) if given["stage"] else None,
            budget_mode=cast(Literal["fixed", "adaptive"], given["budget"]) if given["budget"] else None,
            window_days=None if not window else "all" if window == "all" else int(window),
            model=given["model"],
            window_share=None if given["share"] is None else Decimal(given["share"]) / 100,
            as_of=given["as_of"],
        )


class SearchForm(FilterForm):
    """The question and its filters."""

    q = forms.CharField(max_length=URL_TEXT_MAX, required=False, label="Search for")
    space = forms.ChoiceField(required=False)
    kind = forms.ChoiceField(choices=KINDS, required=False)
    type = forms.CharField(max_length=limits.TYPE_MAX, required=False)
    source = forms.CharField(max_length=limits.SOURCE_MAX, required=False)
    tag = forms.CharField(max_length=limits.TAG_MAX, required=False)
    start = MomentField(label="From")
    end = MomentField(is_end=True, label="To")
    min_relevance = forms.DecimalField(min_value=0, max_value=1, required=False, label="Mark matches below")

    def __init__(self, data: Any, *, team: Team) -> None:
        super().__init__(data)
        self.spaces = list(offered_spaces(team, self.data.get("space", "")))
        field = cast(forms.ChoiceField, self.fields["space"])
        field.choices = [(space.slug, space.name) for space in self.spaces]

    def clean(self) -> dict[str, Any]:
        cleaned = cast("dict[str, Any]", super().clean())
        start, end = cleaned.get("start"), cleaned.get("end")
        if start and end and start >= end:
            raise forms.ValidationError({"end": "Enter a date that is not before From."})
        return cleaned

    @property
    def chosen_space(self) -> str | None:
        """Return the chosen space, or the first if none is chosen."""
        chosen = self.cleaned_data.get("space") if self.is_bound and self.is_valid() else None
        return chosen or (self.spaces[0].slug if self.spaces else None)

    def to_request(self) -> SearchIn:
        data = self.cleaned_data
        kind = data["kind"] if self.chosen_space else "memory"
        lists = {"kinds": kind, "types": data["type"], "sources": data["source"], "tags": data["tag"]}
        asked = {
            "query": data["q"],
            "space": self.chosen_space,
            "limit": RESULTS_SHOWN,
            "date_from": data["start"],
            "date_to": data["end"],
            "min_relevance": data["min_relevance"],
            **{name: [value] for name, value in lists.items() if value},
        }
        return SearchIn.model_validate(asked)
