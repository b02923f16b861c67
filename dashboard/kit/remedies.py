"""Warnings as pages show them, with a one-click remedy where that can help."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from contextopt.engine.settings import name_in_request
from contextopt.engine.values import ContextWarning
from contextopt.people.models import Role
from dashboard.kit.permissions import TeamRequest


@dataclass(frozen=True, slots=True)
class ShownWarning:
    """A warning and its remedy.

    `space_slug` is the space whose settings the remedy changes. It is empty if the remedy would not help or
    the reader may not apply it. `obstacle` is the parameter of the request that overrides those settings.
    """

    warning: ContextWarning
    space_slug: str = ""
    obstacle: str = ""


def show_warnings(
    request: TeamRequest, warnings: Iterable[ContextWarning], space_slug: str, overrides: Collection[str]
) -> list[ShownWarning]:
    """Offer each remedy to those who may change settings, unless the request overrode the setting."""
    return [_show(request, warning, space_slug, overrides) for warning in warnings]


def _show(
    request: TeamRequest, warning: ContextWarning, space_slug: str, overrides: Collection[str]
) -> ShownWarning:
    if warning.remedy is None:
        return ShownWarning(warning)
    name = name_in_request(warning.remedy.setting)
    if name in overrides:
        return ShownWarning(warning, obstacle=name)
    return ShownWarning(warning, space_slug if request.membership.allows(Role.EDITOR) else "")
