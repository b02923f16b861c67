"""The forms and filters of memories and strategies."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.db.models import QuerySet

from contextopt.agents.models import REPOSITORY_MAX, TaskState
from contextopt.inputs import Input
from contextopt.search.hybrid import search
from contextopt.search.registry import SearchFilters
from dashboard.kit.filters import URL_TEXT_MAX, FilterForm, TeamFilterForm
from dashboard.kit.forms import InputForm, ListField, NotesField, ObjectField
from memory.memories.inputs import HintIn, MemoryIn, MemoryPatch
from memory.memories.memories import SEARCHABLE, prepare_memory_query
from memory.memories.models import CONTENT_MAX, MEMORY_TYPES, STRATEGY, TAG_MAX, TYPE_MAX, Memory, TrustLevel
from memory.strategies.inputs import CompletionIn


class MemoryFields[Given: Input](InputForm[Given]):
    content = NotesField(strip=False, max_length=CONTENT_MAX)
    title = forms.CharField(required=False, help_text="A short subject (optional).")
    memory_type = forms.CharField(
        label="Type", initial="general", widget=forms.TextInput(attrs={"list": "memory-types"}),
        help_text=f"{', '.join(MEMORY_TYPES)}, or any other.",
    )  # fmt: skip
    category = forms.CharField(required=False)
    tags = ListField(required=False, help_text="Comma-separated.")
    repository = forms.CharField(required=False)
    trust_level = forms.ChoiceField(
        label="Source",
        choices=TrustLevel.choices,
        help_text="Models get external text marked as data, never as instructions.",
    )
    payload = ObjectField(required=False)


class MemoryForm(MemoryFields[MemoryIn]):
    input_type = MemoryIn


class MemoryEditForm(MemoryFields[MemoryPatch]):
    """Sends only changed fields, so that edits of other fields made elsewhere are not undone."""

    input_type = MemoryPatch

    @classmethod
    def initial_of(cls, memory: Memory) -> dict[str, Any]:
        return {name: getattr(memory, name) for name in cls.base_fields}

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        return {name: cleaned[name] for name in self.changed_data}


class CompletionForm(InputForm[CompletionIn]):
    """The report of an ended task."""

    input_type = CompletionIn
    task_id = forms.IntegerField(
        label="Task number", required=False, min_value=1, help_text="Leave blank to record a new task."
    )
    description = forms.CharField(
        required=False, widget=forms.Textarea(attrs={"rows": 2}), help_text="The goal of the task."
    )
    repository = forms.CharField(required=False)
    outcome = forms.ChoiceField(
        choices=[choice for choice in TaskState.choices if choice[0] != TaskState.OPEN]
    )
    plan = NotesField(required=False, help_text="One step per line.")
    total_attempts = forms.IntegerField(label="Attempts", min_value=1, max_value=10_000, initial=1)
    quality_score = forms.FloatField(
        label="Quality, 0 to 10",
        required=False,
        min_value=0,
        max_value=10,
        initial=8,
        help_text="Required if the task was completed.",
    )
    decisions = NotesField(
        required=False, help_text="One per line.", widget=forms.Textarea(attrs={"rows": 3})
    )
    error_patterns = NotesField(
        required=False, help_text="One per line.", widget=forms.Textarea(attrs={"rows": 3})
    )

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        lists = {
            name: [line.strip() for line in cleaned[name].split("\n") if line.strip()]
            for name in ("decisions", "error_patterns")
        }
        return {**{name: value for name, value in cleaned.items() if value is not None}, **lists}


FOUND_MAX = 50


class MemoriesForm(TeamFilterForm):
    """Filters of the team's memories; `find` searches by words and by meaning."""

    type = forms.CharField(max_length=TYPE_MAX, required=False)
    trust = forms.ChoiceField(
        choices=[("", "Any source"), *TrustLevel.choices], required=False, label="Source"
    )
    tag = forms.CharField(max_length=TAG_MAX, required=False)
    repository = forms.CharField(max_length=REPOSITORY_MAX, required=False)
    show = forms.ChoiceField(
        choices=[("", "Live"), ("retired", "Retired"), ("deleted", "Deleted")], required=False
    )
    find = forms.CharField(max_length=URL_TEXT_MAX, required=False)

    def select(self) -> QuerySet[Memory]:
        """Return the team's matching memories; none if the filters are invalid."""
        found = Memory.objects.of(self.team)
        if not self.is_valid():
            return found.none()
        given = self.cleaned_data
        found = found.filter(deleted_at__isnull=given["show"] != "deleted")
        if given["show"] != "deleted":
            found = found.filter(retired_at__isnull=given["show"] != "retired")
        if given["tag"]:
            found = found.filter(tags__contains=[given["tag"]])
        exact = self.lookups("repository", memory_type="type", trust_level="trust")
        return found.filter(**exact).defer("payload")

    @property
    def searched(self) -> str:
        """The search text; only live memories can be searched."""
        return (
            str(self.cleaned_data.get("find", ""))
            if self.is_valid() and not self.cleaned_data["show"]
            else ""
        )

    def found(self) -> list[Memory]:
        """Return the best memories for the search text, best first, under the same filters."""
        given = self.cleaned_data
        conditions = self.lookups("repository", trust_level="trust")
        filters = SearchFilters(
            types=(given["type"],) if given["type"] else None,
            tags=(given["tag"],) if given["tag"] else None,
            conditions=tuple((name, (value,)) for name, value in conditions.items()),
        )
        hits = search(
            SEARCHABLE,
            self.team.pk,
            prepare_memory_query(self.team.pk, self.searched),
            filters=filters,
            limit=FOUND_MAX,
        )
        rows = Memory.objects.of(self.team).defer("payload").in_bulk([hit.id for hit in hits])
        return [rows[hit.id] for hit in sorted(hits, key=lambda hit: -hit.decayed) if hit.id in rows]


class PlanForm(FilterForm):
    """A task about to be planned, and its repository."""

    task = forms.CharField(
        max_length=URL_TEXT_MAX,
        widget=forms.Textarea(attrs={"rows": 3, "placeholder": "Fix wrong rounding of prices in the cart"}),
    )
    repository = forms.CharField(max_length=REPOSITORY_MAX, required=False)

    def to_request(self) -> HintIn:
        """Return the request; the form must be valid."""
        return HintIn(task=self.cleaned_data["task"], repository=self.cleaned_data["repository"])


class StrategiesForm(TeamFilterForm):
    """Filters of the team's strategies."""

    repository = forms.CharField(max_length=REPOSITORY_MAX, required=False)
    pattern = forms.CharField(max_length=TAG_MAX, required=False)
    state = forms.ChoiceField(
        choices=[("", "In use"), ("retired", "Retired"), ("all", "All")], required=False
    )

    def select(self) -> QuerySet[Memory]:
        """Return the team's matching strategies; none if the filters are invalid."""
        found = Memory.objects.of(self.team).strategies()
        if not self.is_valid():
            return found.none()
        given = self.cleaned_data
        if given["state"] != "all":
            found = found.filter(retired_at__isnull=given["state"] != "retired")
        if given["pattern"]:
            found = found.filter(tags__contains=[given["pattern"], STRATEGY])
        return found.filter(**self.lookups("repository"))
