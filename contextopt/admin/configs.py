# ruff: noqa: ARG002 - the hooks have the signatures that Django gives them
"""Settings of spaces. Versions are published, never edited."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin
from django.forms import ModelForm
from django.forms.widgets import ChoiceWidget
from django.http import HttpRequest
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminRadioSelectWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
)

from contextopt.admin.base import AddOnlyAdmin, actor, become, display
from contextopt.engine.settings import SETTINGS
from contextopt.engine.settings import ContextConfig as Settings
from contextopt.engine.validation import ALL, Setting
from contextopt.errors import Conflict, InvalidInput
from contextopt.inputs import read_digits
from contextopt.spaces.configs import ContextConfig, change_settings, propose_settings, publish_settings
from contextopt.spaces.forms import setting_field, shown_settings

WIDGETS: dict[type[forms.Widget], type[forms.Widget]] = {
    forms.NumberInput: UnfoldAdminIntegerFieldWidget,
    forms.RadioSelect: UnfoldAdminRadioSelectWidget,
    forms.Select: UnfoldAdminSelectWidget,
    forms.Textarea: UnfoldAdminTextareaWidget,
}


class PublishForm(ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = ContextConfig
        fields = ("space", "note")

    def settings(self) -> dict[str, Any]:
        given = {name: self.cleaned_data[name] for name in SETTINGS}
        return {name: None if value == ALL else value for name, value in given.items()}

    def clean(self) -> dict[str, Any]:
        """Refuse settings that no assembly could work with, or that miss the recall that a set demands."""
        data: dict[str, Any] = super().clean() or {}
        if self.errors:
            return data
        try:
            settings = change_settings(Settings(), self.settings())
            propose_settings(space=data["space"], settings=settings, actor="admin")
        except InvalidInput as error:
            for problem in error.problems:
                self.add_error(problem.field, problem.message)
        except Conflict as error:
            self.add_error(None, str(error))
        return data


def _styled(setting: Setting) -> forms.Field:
    """Return the setting's field with the widget of the admin's theme."""
    field = setting_field(setting)
    themed = WIDGETS[type(field.widget)]()
    themed.attrs |= field.widget.attrs
    themed.is_required = field.required
    if isinstance(field.widget, ChoiceWidget) and isinstance(themed, ChoiceWidget):
        themed.choices = field.widget.choices
    field.widget = themed
    return field


def _shown(setting: Setting) -> Callable[[ContextConfig], Any]:
    """Return the column that shows the setting of a version."""

    @display(description=setting.label)
    def show(config: ContextConfig) -> Any:
        value = getattr(config.settings, setting.name)
        return setting.blank if value is None else value

    return show


@admin.register(ContextConfig)
class ContextConfigAdmin(AddOnlyAdmin):
    """Adding publishes the next version of a space's settings and activates it."""

    form = type("SettingsForm", (PublishForm,), {name: _styled(one) for name, one in SETTINGS.items()})
    list_display = (
        "space", "version", "is_active", "is_draft",
        *(_shown(setting) for setting in SETTINGS.values() if setting.is_basic),
        "created_by", "created_at",
    )  # fmt: skip
    list_filter = ("is_active", "space")
    list_select_related = ("space",)
    search_fields = ("space__name", "space__slug", "note")
    autocomplete_fields = ("space",)
    ordering = ("-id",)

    def get_fields(self, request: HttpRequest, obj: ContextConfig | None = None) -> Any:
        if obj is None:
            return ("space", *SETTINGS, "note")
        shown = (_shown(setting) for setting in SETTINGS.values())
        return ("version", "is_active", "is_draft", "space", *shown, "note", "created_by", "created_at")

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Start with the active settings of the space given in the URL."""
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        space_id = read_digits(str(initial.pop("space", "")))
        current = ContextConfig.objects.active().filter(space=space_id).first() if space_id else None
        named = {} if space_id is None else {"space": space_id}
        return shown_settings(current.settings if current else Settings()) | initial | named

    def save_model(
        self, request: HttpRequest, obj: ContextConfig, form: "ModelForm[ContextConfig]", change: bool
    ) -> None:
        assert isinstance(form, PublishForm)
        published = publish_settings(
            space=obj.space, created_by=actor(request), note=obj.note, **form.settings()
        )
        become(obj, published)
