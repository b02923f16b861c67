"""What every page's frame shows: the team, the visitor's role, the navigation."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from contextopt.models import Membership, Role


@dataclass(frozen=True, slots=True)
class NavLink:
    label: str
    url: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class NavGroup:
    """Links under a heading; the first group has none."""

    heading: str
    links: tuple[NavLink, ...]


# Heading → label, URL name, and the beginnings of the URL names that belong to it.
NAVIGATION = (
    (
        "",
        (
            ("Overview", "dashboard:overview", ("overview",)),
            ("Assemblies", "dashboard:assemblies", ("assembl",)),
        ),
    ),
    (
        "What goes in",
        (
            ("Spaces", "dashboard:spaces", ("space", "record")),
            ("Search", "dashboard:search", ("search",)),
        ),
    ),
    (
        "Agents",
        (
            ("Phases", "dashboard:phases", ("phase",)),
            ("Retries", "dashboard:retries", ("retr",)),
            ("Tasks", "dashboard:tasks", ("task", "finding")),
            ("Repositories", "dashboard:repositories", ("repositor",)),
        ),
    ),
    (
        "Answers",
        (
            ("Chat", "dashboard:chat", ("chat",)),
            ("Feedback", "dashboard:feedback", ("feedback",)),
            ("Review", "dashboard:reviews", ("review",)),
        ),
    ),
    (
        "Learned",
        (
            ("Memory", "dashboard:memories", ("memor",)),
            ("Strategies", "dashboard:strategies", ("strateg",)),
        ),
    ),
    ("Team", (("Settings", "dashboard:settings", ("settings", "key", "password", "audit")),)),
)


def navigation(request: HttpRequest) -> dict[str, Any]:
    """Return nothing for visitors who are not on a team's page."""
    membership: Membership | None = getattr(request, "membership", None)
    if membership is None:
        return {}
    return {
        "membership": membership,
        "team": membership.team,
        "memberships": getattr(request, "memberships", []),
        "can_edit": membership.allows(Role.EDITOR),
        "can_admin": membership.allows(Role.ADMIN),
        "navigation": [_group(request, heading, links) for heading, links in NAVIGATION],
    }


def _group(
    request: HttpRequest, heading: str, links: tuple[tuple[str, str, tuple[str, ...]], ...]
) -> NavGroup:
    here = request.resolver_match.url_name or "" if request.resolver_match else ""
    return NavGroup(
        heading,
        tuple(NavLink(label, reverse(name), here.startswith(starts)) for label, name, starts in links),
    )
