# ruff: noqa: ARG002 - the hooks have the signatures that Django gives them
"""Coding agents: their tasks and files, read-only, and what a team may set for them."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from contextopt.admin.base import AddOnlyAdmin, RulesAdmin, ViewOnlyAdmin, actor, become, check_input, display
from contextopt.agents.handoffs.compression import default_budgets
from contextopt.agents.handoffs.models import HandoffSettings
from contextopt.agents.inputs import PhaseNamed, ProfileIn
from contextopt.agents.models import Blob, HandoffPhase, PhaseProfile, ReceiverFile, Task
from contextopt.agents.phaselinks import (
    LinkIn,
    PhaseLink,
    check_link,
    load_active_link,
    publish_link,
)
from contextopt.agents.phases import check_phase, load_active_profile, publish_profile
from contextopt.agents.phaseversions import PhaseVersion
from contextopt.agents.retrysettings import RetrySettings
from contextopt.agents.standingdocuments import StandingDocument
from contextopt.engine.agents.contexts import FIELDS
from contextopt.engine.agents.phases import DEFAULT_LINKS
from contextopt.errors import ContextoptError
from contextopt.inputs import read_digits


class PhaseVersionAdmin(AddOnlyAdmin):
    """Adding publishes the next version of what a team sets for a phase, and activates it."""

    list_filter = ("is_active", "phase", "team")
    list_select_related = ("team",)
    search_fields = ("phase", "note", "team__name")
    autocomplete_fields = ("team",)
    ordering = ("-id",)

    def active_settings(self, team_id: int, phase: str) -> dict[str, Any]:
        """Return the settings that the form starts with."""
        raise NotImplementedError

    def get_fields(self, request: HttpRequest, obj: PhaseVersion | None = None) -> tuple[str, ...]:
        fields = ("team", "phase", *self.model.SETTINGS, "note")
        return fields if obj is None else ("version", "is_active", *fields, "created_by", "created_at")

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Start with the active settings of the team and phase given in the URL."""
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        team_id = read_digits(str(initial.get("team", "")))
        phase = str(initial.get("phase", "")).replace("\x00", "")
        if team_id is None:
            initial.pop("team", None)
            return initial
        return {**self.active_settings(team_id, phase), **initial, "phase": phase}


def _settings_in(value: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


class PublishForm(ModelForm):  # type: ignore[type-arg]
    fields = forms.MultipleChoiceField(  # type: ignore[assignment]
        choices=[(name, name) for name in FIELDS],
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="Fields sent in this phase. The task is always sent.",
    )

    class Meta:
        model = PhaseProfile
        fields = ("team", "phase", *PhaseProfile.SETTINGS, "note")

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        check_input(
            self, ProfileIn, {name: data[name] for name in (*PhaseProfile.SETTINGS, "note") if name in data}
        )
        check_input(self, PhaseNamed, {"phase": data.get("phase", "x")})
        if data.get("team") and data.get("phase"):
            try:
                check_phase(data["team"].pk, data["phase"], given=PhaseProfile.SETTINGS)
            except ContextoptError as error:
                self.add_error("phase", str(error))
        return data


@admin.register(PhaseProfile)
class PhaseProfileAdmin(PhaseVersionAdmin):
    """Adding publishes the next version of a phase's settings and activates it."""

    form = PublishForm
    list_display = (
        "phase", "version", "is_active", "team", "budget_tokens", "fields", "created_by", "created_at",
    )  # fmt: skip

    def active_settings(self, team_id: int, phase: str) -> dict[str, Any]:
        active = load_active_profile(team_id, phase)
        return _settings_in(active.value, PhaseProfile.SETTINGS) if active else {}

    def save_model(
        self, request: HttpRequest, obj: PhaseProfile, form: "ModelForm[PhaseProfile]", change: bool
    ) -> None:
        data = ProfileIn(**{name: form.cleaned_data[name] for name in (*PhaseProfile.SETTINGS, "note")})
        published = publish_profile(team=obj.team, phase=obj.phase, data=data, created_by=actor(request))
        become(obj, published)


class LinkForm(ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = PhaseLink
        fields = ("team", "phase", *PhaseLink.SETTINGS, "note")

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        check_input(self, PhaseNamed, {"phase": data.get("phase", "x")})
        if data.get("team") and data.get("phase") and data.get("profile"):
            try:
                check_link(data["team"].pk, data["phase"], profile=data["profile"])
            except ContextoptError as error:
                self.add_error("profile", str(error))
        return data


@admin.register(PhaseLink)
class PhaseLinkAdmin(PhaseVersionAdmin):
    """Adding publishes the next version of a phase's link and activates it.

    The list begins with the defaults, which apply to phases without a version.
    """

    form = LinkForm
    list_before_template = "admin/default_links.html"
    list_display = (
        "phase",
        "version",
        "is_active",
        "team",
        "profile",
        "receives",
        "created_by",
        "created_at",
    )

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = {**(extra_context or {}), "default_links": DEFAULT_LINKS.values()}
        page: HttpResponse = super().changelist_view(request, context)
        return page

    def active_settings(self, team_id: int, phase: str) -> dict[str, Any]:
        return _settings_in(load_active_link(team_id, phase).value, PhaseLink.SETTINGS)

    def save_model(
        self, request: HttpRequest, obj: PhaseLink, form: "ModelForm[PhaseLink]", change: bool
    ) -> None:
        given = {name: form.cleaned_data[name] or None for name in PhaseLink.SETTINGS}
        data = LinkIn(**given, note=form.cleaned_data["note"])
        become(obj, publish_link(team=obj.team, phase=obj.phase, data=data, created_by=actor(request)))


@admin.register(HandoffSettings)
class HandoffSettingsAdmin(RulesAdmin):
    """A team's own sizes for one phase. Deleting them restores the defaults."""

    list_display = (
        "team", "phase", "bundle_tokens", "findings_tokens", "brief_tokens", "critical_tokens",
        "max_critical", "updated_by", "updated_at",
    )  # fmt: skip
    list_display_links = ("team", "phase")
    list_filter = ("phase", "team")
    ordering = ("-id",)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Start with the defaults of the phase given in the URL, or of the first phase."""
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        name = initial.get("phase", "")
        if read_digits(str(initial.get("team", ""))) is None:
            initial.pop("team", None)
        phase = HandoffPhase(name) if name in HandoffPhase.values else HandoffPhase.ANALYSIS
        return {**default_budgets(phase).to_json(), **initial, "phase": phase.value}


@admin.register(RetrySettings)
class RetrySettingsAdmin(RulesAdmin):
    """A team's own limits. Deleting them restores the defaults."""

    list_display = ("team", "error_tokens", "diff_lines", "diff_characters", "updated_by", "updated_at")
    ordering = ("team",)


@admin.register(StandingDocument)
class StandingDocumentAdmin(RulesAdmin):
    """Documents that every step of a repository's tasks is sent. They can be added, edited and deleted."""

    list_display = ("title", "repository", "team", "created_by", "updated_at")
    list_filter = ("team",)
    search_fields = ("title", "=repository")
    ordering = ("repository", "id")

    def save_model(
        self, request: HttpRequest, obj: StandingDocument, form: "ModelForm[StandingDocument]", change: bool
    ) -> None:
        if not change:
            obj.created_by = actor(request)
        super().save_model(request, obj, form, change)


@admin.register(Task)
class TaskAdmin(ViewOnlyAdmin):
    list_display = ("id", "shown_description", "state", "repository", "team", "created_at", "expires_at")
    list_filter = ("state", "team")
    list_select_related = ("team",)
    search_fields = ("=external_id", "=repository")
    search_help_text = "An external ID or a repository."
    ordering = ("-id",)

    @display(description="Description")
    def shown_description(self, task: Task) -> str:
        return str(task)


@admin.register(ReceiverFile)
class ReceiverFileAdmin(ViewOnlyAdmin):
    list_display = ("task_id", "receiver", "path", "blob_id", "is_partial")
    list_display_links = ("path",)
    search_fields = ("=task__id", "=path")
    fields = ("task", "receiver", "path", "shown_blob", "is_partial")
    readonly_fields = ("shown_blob",)
    ordering = ("-id",)

    @display(description="Content")
    def shown_blob(self, file: ReceiverFile) -> str:
        if file.blob_id is None:
            return "never sent whole"
        blob = Blob.objects.only("sha256", "size").get(pk=file.blob_id)
        return f"{blob.sha256}, {blob.size:,} bytes"
