"""The form that starts a backtest."""

from typing import Any, cast

from django import forms

from contextopt.models import ContextConfig, Space
from dashboard.kit.forms import InputForm
from memory.backtests.inputs import LAST_DEFAULT, LAST_MAX, BacktestIn

VERSIONS_OFFERED = 50


class BacktestForm(InputForm[BacktestIn]):
    input_type = BacktestIn
    config = forms.TypedChoiceField(coerce=int, label="Settings")
    last = forms.IntegerField(
        label="Last contexts",
        initial=LAST_DEFAULT,
        min_value=1,
        max_value=LAST_MAX,
        help_text=f"1 to {LAST_MAX:,}",
    )

    def __init__(self, *args: Any, space: Space, **options: Any) -> None:
        super().__init__(*args, **options)
        versions = list(space.configs.order_by("-version")[:VERSIONS_OFFERED])
        choices = [(each.version, _label(each)) for each in versions]
        cast(forms.ChoiceField, self.fields["config"]).choices = choices


def _label(config: ContextConfig) -> str:
    state = ", active" if config.is_active else ", draft" if config.is_draft else ""
    return f"v{config.version}{state}"
