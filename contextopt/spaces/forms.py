"""Form fields of a space's settings, read from the table of settings."""

from collections.abc import Mapping
from typing import Any

from django import forms

from contextopt.engine.settings import SETTINGS, ContextConfig
from contextopt.engine.text.encodings import known_encodings
from contextopt.engine.validation import ALL, WEIGHT_DECIMALS, Setting


def setting_fields() -> dict[str, forms.Field]:
    return {name: setting_field(setting) for name, setting in SETTINGS.items()}


def setting_field(setting: Setting) -> forms.Field:
    """Return a field for the setting; blank means what the setting says of it."""
    has_blank = setting.is_optional and not setting.choices
    told: dict[str, Any] = {
        "label": setting.label,
        "help_text": (
            f"{setting.help} Leave blank for {setting.blank}.".strip() if has_blank else setting.help
        ),
    }
    if setting.choices:
        told["widget"] = forms.RadioSelect if setting.kind is int else forms.Select
        shown = {ALL if each is None else each: words for each, words in setting.choices.items()}
        values = {str(each): each for each in shown}
        return forms.TypedChoiceField(
            choices=list(shown.items()), coerce=lambda text: values.get(text, text), **told
        )
    if setting.kind is str and setting.is_optional:
        text = forms.Textarea(attrs={"rows": 2})
        return forms.CharField(
            max_length=int(setting.high), required=False, empty_value=None, widget=text, **told
        )
    if setting.kind is str:
        # The only other text is the name of an encoding.
        return forms.ChoiceField(choices=[(name, name) for name in known_encodings()], **told)
    told |= {"min_value": setting.low, "max_value": setting.high, "required": not setting.is_optional}
    if setting.kind is int:
        return forms.IntegerField(**told)
    return forms.DecimalField(decimal_places=WEIGHT_DECIMALS, **told)


def shown_settings(settings: ContextConfig) -> dict[str, Any]:
    """Return the initial values of the fields."""
    return {
        name: ALL if value is None and SETTINGS[name].choices else value
        for name, value in settings.values().items()
    }


def read_settings(cleaned: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cleaned values as the input type takes them, where a blank field is "all"."""
    alls = {name for name, setting in SETTINGS.items() if setting.is_all}
    return {name: ALL if value is None and name in alls else value for name, value in cleaned.items()}
