"""The form of What if: the settings that decided on a context, to be changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django import forms

from contextopt.assemblies.inputs import ReplayIn
from contextopt.engine.settings import SETTINGS, ContextConfig
from contextopt.spaces.forms import read_settings, setting_fields, shown_settings
from contextopt.spaces.inputs import SettingsIn
from dashboard.kit.formats import setting_label, setting_words
from dashboard.kit.forms import InputForm


class WhatIfForm(InputForm[SettingsIn]):
    """The settings of one stage. Only changed ones are tried, so the others stay what they were."""

    input_type = SettingsIn

    def __init__(self, data: Mapping[str, Any], *, config: ContextConfig, is_asked: bool) -> None:
        stage = config.stage if is_asked else config.without_question().stage
        names = [name for name, setting in SETTINGS.items() if setting.decides_in(stage)]
        shown = shown_settings(config)
        initial = {name: _without_zeros(shown[name]) for name in names}
        # A link names only the changed settings.
        given = {name: data.get(name, initial[name]) for name in names} if {*names} & {*data} else None
        super().__init__(given, initial=initial)
        fields = setting_fields()
        self.fields = {name: fields[name] for name in names}
        for name, field in self.fields.items():
            field.help_text = ""
            if not field.required:
                field.widget.attrs["placeholder"] = SETTINGS[name].blank
            if isinstance(field, forms.ChoiceField):
                _add_present(field, initial[name])

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        return read_settings({name: cleaned[name] for name in self.changed_data})

    @property
    def changes(self) -> list["ChangedSetting"]:
        """Return the changed settings, each with the query string that takes it back."""
        if not self.is_bound or not self.is_valid():
            return []
        return [
            ChangedSetting(
                setting_label(name),
                setting_words(self.initial[name], name),
                setting_words(self.cleaned_data[name], name),
                self.query(without=name),
            )
            for name in self.changed_data
        ]

    @property
    def changed_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.changed_data]

    def query(self, *, without: str = "") -> str:
        """Return the changed settings as a query string."""
        return urlencode({name: self[name].value() for name in self.changed_data if name != without})

    def to_request(self, version: int | None) -> ReplayIn:
        settings = self.value if self.is_bound else SettingsIn()
        assert isinstance(settings, SettingsIn)
        return ReplayIn.model_construct(config=version, settings=settings)


def _without_zeros(value: Any) -> Any:
    """Return a decimal without zeros at its end."""
    return value.normalize() + 0 if isinstance(value, Decimal) else value


@dataclass(frozen=True, slots=True)
class ChangedSetting:
    """A changed setting: its label, its values, and the query string without it."""

    label: str
    before: str
    after: str
    without: str


def _add_present(field: forms.ChoiceField, present: Any) -> None:
    """Add the present value to the choices: a request may have given one that a space may not have."""
    if not field.valid_value(present):
        field.choices = [(present, str(present)), *field.widget.choices]
