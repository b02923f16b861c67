"""The frame of every page: the team, the visitor's role, the navigation."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.urls import get_script_prefix, reverse
from django.utils.functional import SimpleLazyObject

from contextopt.people.models import Membership, Role, Team
from dashboard.kit.frame.guide import read_step
from dashboard.kit.frame.serverevents import EVENTS_PATH
from memory.review.models import ItemState, ReviewItem

COUNTED_MAX = 99


@dataclass(frozen=True, slots=True)
class NavLink:
    """A link to a page. `waiting` is called only when the frame is drawn, not for a part of a page.

    `key`, pressed after g, opens the page; it is empty if none does.
    """

    label: str
    url: str
    key: str
    is_current: bool
    waiting: Callable[[], str] | None = None


@dataclass(frozen=True, slots=True)
class NavGroup:
    """Links under a heading; the first group has none."""

    heading: str
    links: tuple[NavLink, ...]


# Heading → label, URL name, the prefixes of the URL names that belong to it, and the key after g.
NAVIGATION = (
    (
        "",
        (
            ("Overview", "dashboard:overview", ("overview",), "o"),
            ("Assemblies", "dashboard:assemblies", ("assembl",), "a"),
            ("Traffic", "dashboard:traffic", ("traffic",), ""),
        ),
    ),
    (
        "What goes in",
        (
            ("Spaces", "dashboard:spaces", ("space", "record"), "s"),
            ("Search", "dashboard:search", ("search",), ""),
        ),
    ),
    (
        "Agents",
        (
            ("Phases", "dashboard:phases", ("phase",), "p"),
            ("Retries", "dashboard:retries", ("retr",), "r"),
            ("Tasks", "dashboard:tasks", ("task", "finding"), "t"),
            ("Repositories", "dashboard:repositories", ("repositor",), ""),
        ),
    ),
    (
        "Answers",
        (
            ("Chat", "dashboard:chat", ("chat",), "c"),
            ("Feedback", "dashboard:feedback", ("feedback",), "f"),
            ("Review", "dashboard:reviews", ("review",), "v"),
        ),
    ),
    (
        "Proof",
        (
            ("Question sets", "dashboard:question_sets", ("question", "set_"), ""),
            ("Backtests", "dashboard:backtests", ("backtest",), ""),
        ),
    ),
    (
        "Learned",
        (
            ("Memory", "dashboard:memories", ("memor",), ""),
            ("Strategies", "dashboard:strategies", ("strateg",), ""),
        ),
    ),
    (
        "Team",
        (
            ("Connect", "dashboard:connect", ("connect",), ""),
            ("Settings", "dashboard:settings", ("settings", "key", "password", "audit"), ""),
        ),
    ),
)


def navigation(request: HttpRequest) -> dict[str, Any]:
    """Return the frame's context; it is empty for visitors who are not on a team's page."""
    membership: Membership | None = getattr(request, "membership", None)
    if membership is None:
        return {}
    return {
        "membership": membership,
        "team": membership.team,
        "memberships": getattr(request, "memberships", []),
        "can_edit": membership.allows(Role.EDITOR),
        "can_review": membership.allows(Role.REVIEWER),
        "can_admin": membership.allows(Role.ADMIN),
        # WSGI servers have no events, so their pages poll.
        "events_path": EVENTS_PATH if isinstance(request, ASGIRequest) else "",
        # Few templates show the next step, and only they ask for it.
        "start": SimpleLazyObject(lambda: read_step(request)),
        "navigation": [_group(request, membership, *group) for group in NAVIGATION],
    }


def _group(
    request: HttpRequest,
    membership: Membership,
    heading: str,
    links: tuple[tuple[str, str, tuple[str, ...], str], ...],
) -> NavGroup:
    here = request.resolver_match.url_name or "" if request.resolver_match else ""
    addresses = _addresses(get_script_prefix())
    waiting = {}
    if membership.allows(Role.REVIEWER):
        waiting["dashboard:reviews"] = partial(count_waiting, membership.team)
    return NavGroup(
        heading,
        tuple(
            NavLink(label, addresses[name], key, here.startswith(starts), waiting.get(name))
            for label, name, starts, key in links
        ),
    )


@lru_cache(maxsize=8)
def _addresses(_prefix: str) -> dict[str, str]:
    """Return the addresses of the navigation, which are the same for every page under a prefix."""
    return {name: reverse(name) for _, links in NAVIGATION for _, name, *_ in links}


def count_waiting(team: Team) -> str:
    """Return the number of answers that wait for review; empty if none do."""
    waiting = ReviewItem.objects.of(team).filter(state=ItemState.OPEN)[: COUNTED_MAX + 1].count()
    return f"{COUNTED_MAX}+" if waiting > COUNTED_MAX else str(waiting or "")
