"""Presets: named values of settings of a space."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from contextopt.engine.settings import ADAPTIVE, ContextConfig


@dataclass(frozen=True, slots=True)
class Preset:
    """Values of settings. `about` describes it in the API, in the docs and on pages."""

    name: str
    label: str
    about: str
    settings: Mapping[str, Any]

    def is_in(self, settings: ContextConfig) -> bool:
        """Return whether the settings have all the values of the preset."""
        return all(getattr(settings, name) == value for name, value in self.settings.items())


LEAN = Preset(
    name="lean",
    label="Lean",
    about=(
        "At least 20 % fewer tokens than the last 10 records. Requests without a question get fewer records: "
        "those that say the most for their length. Questions stay as they are."
    ),
    # Measured in benchmarks, section `lean`.
    settings={"record_budget": ADAPTIVE},
)
PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in (LEAN,)}
