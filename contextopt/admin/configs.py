# ruff: noqa: ARG002 - the hooks have the signatures that Django gives them
"""Settings of spaces. Versions are published, never edited."""

from typing import Any

from django.contrib import admin
from django.forms import ModelForm
from django.http import HttpRequest

from contextopt.admin.base import AddOnlyAdmin, actor, become
from contextopt.engine import UnknownEncoding, get_tokenizer
from contextopt.errors import Conflict
from contextopt.inputs import read_digits
from contextopt.models import ContextConfig
from contextopt.spaces.configs import SETTINGS, propose_settings, publish_settings, settings_of


class PublishForm(ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = ContextConfig
        fields = ("space", *SETTINGS, "note")

    def clean_encoding(self) -> str:
        name = str(self.cleaned_data["encoding"])
        try:
            get_tokenizer(name)
        except UnknownEncoding as error:
            self.add_error("encoding", error.message)
        return name

    def clean(self) -> dict[str, Any]:
        """Refuse settings that miss the recall that a question set demands."""
        data: dict[str, Any] = super().clean() or {}
        if not self.errors:
            settings = {name: data[name] for name in SETTINGS}
            try:
                propose_settings(space=data["space"], settings=settings, actor="admin")
            except Conflict as error:
                self.add_error(None, str(error))
        return data


@admin.register(ContextConfig)
class ContextConfigAdmin(AddOnlyAdmin):
    """Adding publishes the next version of a space's settings and activates it."""

    form = PublishForm
    list_display = (
        "space", "version", "is_active", "is_draft", "window_days", "max_records", "context_tokens",
        "created_by", "created_at",
    )  # fmt: skip
    list_filter = ("is_active", "window_days", "space")
    list_select_related = ("space",)
    search_fields = ("space__name", "space__slug", "note")
    autocomplete_fields = ("space",)
    ordering = ("-id",)

    def get_fields(self, request: HttpRequest, obj: ContextConfig | None = None) -> tuple[str, ...]:
        fields = tuple(PublishForm.Meta.fields)
        return (
            fields
            if obj is None
            else ("version", "is_active", "is_draft", *fields, "created_by", "created_at")
        )

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Start with the active settings of the space given in the URL."""
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        space_id = read_digits(str(initial.pop("space", "")))
        if space_id is None:
            return initial
        initial["space"] = space_id
        current = ContextConfig.objects.active().filter(space=initial["space"]).first()
        return {**(settings_of(current) if current else {}), **initial}

    def save_model(
        self, request: HttpRequest, obj: ContextConfig, form: "ModelForm[ContextConfig]", change: bool
    ) -> None:
        settings = {name: form.cleaned_data[name] for name in SETTINGS}
        published = publish_settings(space=obj.space, created_by=actor(request), note=obj.note, **settings)
        become(obj, published)
