# ruff: noqa: ARG002 - the hooks have the signatures that Django gives them
"""Settings of phases. Versions are published, never edited."""

from typing import Any

from django import forms
from django.contrib import admin
from django.forms import ModelForm
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from contextopt.admin.base import AddOnlyAdmin, actor, become, check_input
from contextopt.agents.inputs import PhaseNamed, ProfileIn
from contextopt.agents.models import PHASE_SETTINGS
from contextopt.agents.phases import check_phase, load_active_profile, publish_profile
from contextopt.engine.agents.contexts import FIELDS
from contextopt.errors import ContextoptError
from contextopt.inputs import read_digits
from contextopt.models import PhaseProfile


class PublishForm(ModelForm):  # type: ignore[type-arg]
    fields = forms.MultipleChoiceField(  # type: ignore[assignment]
        choices=[(name, name) for name in FIELDS],
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="Fields sent in this phase. The task is always sent.",
    )

    class Meta:
        model = PhaseProfile
        fields = ("team", "phase", *PHASE_SETTINGS, "note")

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        check_input(self, ProfileIn, {name: data[name] for name in (*PHASE_SETTINGS, "note") if name in data})
        check_input(self, PhaseNamed, {"phase": data.get("phase", "x")})
        if data.get("team") and data.get("phase"):
            try:
                check_phase(data["team"].pk, data["phase"], given=PHASE_SETTINGS)
            except ContextoptError as error:
                self.add_error("phase", str(error))
        return data


@admin.register(PhaseProfile)
class PhaseProfileAdmin(AddOnlyAdmin):
    """Adding publishes the next version of a phase's settings and activates it."""

    form = PublishForm
    list_display = (
        "phase", "version", "is_active", "team", "budget_tokens", "fields", "created_by", "created_at",
    )  # fmt: skip
    list_filter = ("is_active", "phase", "team")
    list_select_related = ("team",)
    search_fields = ("phase", "note", "team__name")
    autocomplete_fields = ("team",)
    ordering = ("-id",)

    def get_fields(self, request: HttpRequest, obj: PhaseProfile | None = None) -> tuple[str, ...]:
        fields = tuple(PublishForm.Meta.fields)
        return fields if obj is None else ("version", "is_active", *fields, "created_by", "created_at")

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Start with the active settings of the team and phase given in the URL."""
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        team_id = read_digits(str(initial.get("team", "")))
        phase = str(initial.get("phase", "")).replace("\x00", "")
        if team_id is None:
            initial.pop("team", None)
            return initial
        active = load_active_profile(team_id, phase)
        carried = {name: getattr(active.value, name) for name in PHASE_SETTINGS} if active else {}
        return {**carried, **initial, "phase": phase}

    def save_model(
        self, request: HttpRequest, obj: PhaseProfile, form: "ModelForm[PhaseProfile]", change: bool
    ) -> None:
        data = ProfileIn(**{name: form.cleaned_data[name] for name in (*PHASE_SETTINGS, "note")})
        published = publish_profile(team=obj.team, phase=obj.phase, data=data, created_by=actor(request))
        become(obj, published)
