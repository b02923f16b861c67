"""The form of What if: the settings that decided on a context, to be changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django import forms

from contextopt.assemblies.inputs import ReplayIn
from contextopt.engine import ContextConfig
from contextopt.engine.settings import (
    HEADER_STAGE,
    LAST_RECORDS_STAGE,
    MAX_PART_TOKENS,
    MAX_RECORD_LIMIT,
    MAX_STRICTNESS,
    MAX_WINDOW_DAYS,
    MIN_RECORD_TOKENS,
    SCORED_STAGE,
    SEARCH_STAGE,
)
from contextopt.spaces.configs import ALL_ALLOWED, BUDGET_MODE_CHOICES, RECORD_ORDER_CHOICES
from contextopt.spaces.inputs import SettingsIn
from dashboard.kit.formats import setting_label, setting_words
from dashboard.kit.forms import InputForm
from dashboard.pages.spaces.forms import ALL


def _weight(high: Decimal | int = 10, low: Decimal | int = 0) -> forms.DecimalField:
    return forms.DecimalField(min_value=low, max_value=high, decimal_places=3)


def _limit(low: int, high: int) -> forms.IntegerField:
    """Return a field for a limit; blank means all."""
    return forms.IntegerField(required=False, min_value=low, max_value=high)


SHARED = ("recency_weight", "frequency_weight")
FIELDS = {
    HEADER_STAGE: (),
    LAST_RECORDS_STAGE: ("stage3_context_tokens", "max_records", "record_order"),
    SCORED_STAGE: ("context_tokens", "window_days", "max_records", *SHARED, "record_order"),
    SEARCH_STAGE: (
        "context_tokens", "budget_mode", "adaptive_strictness", "question_window_days",
        "question_max_records", "question_record_tokens", "semantic_weight", "lexical_weight",
        "neighbour_share", "date_weight", "who_weight", *SHARED, "record_order",
    ),
}  # fmt: skip


class WhatIfForm(InputForm[SettingsIn]):
    """The settings of one stage. Only changed ones are tried, so the others stay what they were."""

    input_type = SettingsIn
    context_tokens = forms.IntegerField(min_value=0, max_value=MAX_PART_TOKENS)
    stage3_context_tokens = forms.IntegerField(min_value=0, max_value=MAX_PART_TOKENS)
    budget_mode = forms.ChoiceField(choices=[(mode, mode.capitalize()) for mode, _ in BUDGET_MODE_CHOICES])
    adaptive_strictness = _weight(MAX_STRICTNESS, -MAX_STRICTNESS)
    window_days = forms.ChoiceField()
    question_window_days = _limit(1, MAX_WINDOW_DAYS)
    max_records = _limit(1, MAX_RECORD_LIMIT)
    question_max_records = _limit(1, MAX_RECORD_LIMIT)
    question_record_tokens = _limit(MIN_RECORD_TOKENS, MAX_PART_TOKENS)
    semantic_weight = _weight()
    lexical_weight = _weight()
    neighbour_share = _weight(1)
    date_weight = _weight()
    who_weight = _weight()
    recency_weight = _weight()
    frequency_weight = _weight()
    record_order = forms.ChoiceField(choices=RECORD_ORDER_CHOICES)

    def __init__(self, data: Mapping[str, Any], *, config: ContextConfig, is_asked: bool) -> None:
        names = FIELDS[config.stage if is_asked else config.without_question().stage]
        initial = {name: _without_zeros(getattr(config, name)) for name in names} | {
            "window_days": str(config.window_days or ALL)
        }
        # A link names only the changed settings.
        given = {name: data.get(name, initial[name]) for name in names} if {*names} & {*data} else None
        super().__init__(given, initial=initial)
        self.fields = {name: self.fields[name] for name in names}
        for name, field in self.fields.items():
            field.label = setting_label(name)
        if "window_days" in self.fields:
            window = self.fields["window_days"]
            assert isinstance(window, forms.ChoiceField)
            window.choices = _window_choices(config.window_days)
        for name in set(ALL_ALLOWED) & set(names) - {"window_days"}:
            self.fields[name].widget.attrs["placeholder"] = "all"

    def values(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        changed = {name: cleaned[name] for name in self.changed_data}
        if str(changed.get("window_days", "")).isdecimal():
            changed["window_days"] = int(changed["window_days"])
        return {
            name: ALL if value is None and name in ALL_ALLOWED else value for name, value in changed.items()
        }

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


def _window_choices(present: int | None) -> list[tuple[str, str]]:
    days = sorted({7, 14, 30, *({present} if present else set())})
    return [*((str(one), f"{one} days") for one in days), (ALL, "All")]
