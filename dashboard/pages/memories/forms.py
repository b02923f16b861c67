"""The forms of memories and strategies."""

from collections.abc import Mapping
from typing import Any

from django import forms

from contextopt.inputs import Input
from dashboard.kit.forms import InputForm, ListField, NotesField, ObjectField
from memory.memories.inputs import MemoryIn, MemoryPatch
from memory.memories.models import CONTENT_MAX, MEMORY_TYPES, Memory, TrustLevel
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
    outcome = forms.ChoiceField(choices=[("completed", "Completed"), ("failed", "Failed")])
    plan = NotesField(required=False, help_text="One step per line.")
    total_attempts = forms.IntegerField(label="Attempts", min_value=1, max_value=10_000, initial=1)
    quality_score = forms.FloatField(label="Quality, 0 to 10", min_value=0, max_value=10, initial=8)
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
