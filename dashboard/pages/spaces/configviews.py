"""A space's settings as pages show them: the budget as a bar, the history as differences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contextopt.engine.settings import SETTINGS
from contextopt.spaces.configs import ContextConfig
from dashboard.kit.charts.shapes import Bar, allocation_bar


@dataclass(frozen=True, slots=True)
class SettingChange:
    name: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class Version:
    """A version, and its differences from the next older one that was published."""

    config: ContextConfig
    changes: tuple[SettingChange, ...]
    is_first: bool


def compare_versions(newest_first: Sequence[ContextConfig]) -> list[Version]:
    """Compare each version with the next older published one: a draft changes nothing for those after it."""
    compared, older = [], None
    for config in reversed(newest_first):
        compared.append(Version(config, changes_between(older, config), older is None))
        older = older if config.is_draft else config
    return compared[::-1]


def changes_between(older: ContextConfig | None, newer: ContextConfig) -> tuple[SettingChange, ...]:
    """Return the settings that differ."""
    if older is None:
        return ()
    return tuple(
        SettingChange(name, before, after)
        for name in SETTINGS
        if (before := getattr(older.settings, name)) != (after := getattr(newer.settings, name))
    )


def budget_bar(budgets: Mapping[str, Any]) -> Bar:
    """Draw the four budgets; if a total is set, the response gets what is left of it."""
    system, context, history, response = (
        int(budgets.get(f"{part}_tokens") or 0) for part in ("system", "context", "history", "response")
    )
    total = int(budgets.get("total_tokens") or 0) or system + context + history + response
    # Same as the engine: context is reduced first, and the response takes what is left.
    context = max(0, min(context, total - system - history - response))
    response = max(response, total - system - history - context)
    return allocation_bar(system=system, context=context, used=context, history=history, response=response)
