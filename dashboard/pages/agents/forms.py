"""The forms of tasks and findings."""

from collections.abc import Mapping
from typing import Any

from django import forms

from contextopt.agents.handoffs.inputs import FindingIn, FindingPatch
from contextopt.agents.handoffs.models import CATEGORY_MAX, Decision
from contextopt.agents.inputs import ProfileIn, StandingDocumentIn, TaskIn
from contextopt.agents.models import (
    PHASE_BUDGET_MAX,
    STANDING_CONTENT_MAX,
    STANDING_TITLE_MAX,
    TASK_DESCRIPTION_MAX,
    HandoffPhase,
    Task,
)
from contextopt.engine.agents.contexts import FIELDS
from dashboard.kit.forms import InputForm, ListField, NotesField, ObjectField

# Fields of a finding that are omitted if nothing is chosen.
OPTIONAL = ("phase", "decision")


class TaskForm(InputForm[TaskIn]):
    input_type = TaskIn
    description = NotesField(
        max_length=TASK_DESCRIPTION_MAX,
        widget=forms.Textarea(attrs={"rows": 4, "placeholder": "Round prices to whole cents in the cart"}),
    )
    repository = forms.CharField(required=False)
    external_id = forms.CharField(
        required=False, label="External ID", help_text="The ID of this task in your own system (optional)."
    )


class FindingForm(InputForm[FindingIn]):
    input_type = FindingIn
    phase = forms.ChoiceField(
        required=False, help_text="Findings of earlier phases are included in the next bundle."
    )
    category = forms.CharField(
        widget=forms.TextInput(attrs={"list": "categories", "maxlength": CATEGORY_MAX, "autocomplete": "off"})
    )
    content = ObjectField(
        widget=forms.Textarea(attrs={"rows": 7, "spellcheck": "false"}),
        help_text="A JSON object. The brief uses these keys: description, pattern_name, location, "
        "reusability, gaps, table, columns, severity, mitigation.",
    )
    confidence = forms.FloatField(
        initial=0.8,
        min_value=0,
        max_value=1,
        widget=forms.NumberInput(attrs={"step": "0.05"}),
        help_text="From 0 to 1.",
    )
    tags = ListField(
        required=False, help_text="Comma-separated. The tag “critical” hands the finding on in full."
    )
    depends_on = ListField(required=False, help_text="Comma-separated IDs such as F-001.")
    decision = forms.ChoiceField(
        choices=[("", "No decision"), *Decision.choices],
        required=False,
        help_text="An open decision blocks the hand-off.",
    )
    implementation_ready = forms.BooleanField(required=False, label="Ready to implement (handed on in full)")

    def __init__(self, data: Any = None, *, task: Task) -> None:
        super().__init__(data)
        phase = HandoffPhase(task.phase)
        choices = [(each.value, each.label) for each in (*phase.all_before, phase)]
        field = self.fields["phase"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices
        self.initial["phase"] = phase

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in cleaned.items() if value != "" or name not in OPTIONAL}


class LabelsForm(InputForm[FindingPatch]):
    """The fields of a finding that may change later."""

    input_type = FindingPatch
    tags = ListField(
        required=False, help_text="Comma-separated. The tag “critical” hands the finding on in full."
    )
    depends_on = ListField(required=False, help_text="Comma-separated IDs such as F-001.")


class ProfileForm(InputForm[ProfileIn]):
    input_type = ProfileIn
    budget_tokens = forms.IntegerField(label="Budget in tokens", min_value=0, max_value=PHASE_BUDGET_MAX)
    # Django removes declared fields from the class, so this one does not hide the form's `fields`.
    fields = forms.MultipleChoiceField(  # type: ignore[assignment]
        label="Fields kept",
        choices=[(name, name.replace("_", " ")) for name in FIELDS],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="The task is always sent.",
    )
    note = forms.CharField(
        required=False, max_length=200, help_text="Reason for the change, shown in the history."
    )


class StandingDocumentForm(InputForm[StandingDocumentIn]):
    """A document for every step of the tasks of `repository`."""

    input_type = StandingDocumentIn
    title = forms.CharField(max_length=STANDING_TITLE_MAX)
    content = NotesField(
        max_length=STANDING_CONTENT_MAX,
        widget=forms.Textarea(attrs={"rows": 6}),
        help_text="A document with the same title is replaced.",
    )

    def __init__(self, data: Any = None, *, repository: str = "") -> None:
        super().__init__(data)
        self.repository = repository

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        return {**cleaned, "repository": self.repository}
