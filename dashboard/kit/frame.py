"""The frame of every page: the team, the navigation, the next step for a newcomer, and error pages."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, cast

import structlog
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import get_script_prefix, reverse
from django.utils.cache import add_never_cache_headers
from django.utils.functional import SimpleLazyObject

from contextopt.api.protocol.problems import OUT_OF_TIME, RETRY_AFTER_SECONDS
from contextopt.assemblies.models import Assembly
from contextopt.errors import Busy, NotFound, ServiceUnavailable, TooManyAttempts
from contextopt.locks import is_about_deleted, is_out_of_time
from contextopt.people.models import ApiKey, Membership, Role, Team
from contextopt.spaces.models import Record, Space
from contextopt.sql import DATABASE_UNREACHABLE
from dashboard.kit.permissions import TeamRequest, enter_team
from dashboard.kit.serverevents import EVENTS_PATH
from memory.review.models import ItemState

log = structlog.get_logger(__name__)


UNAVAILABLE = (*DATABASE_UNREACHABLE, ServiceUnavailable)


class ErrorPageMiddleware:
    """Answers some errors with a page that explains them.

    These are a method that the address does not allow, too many attempts, and something that was deleted
    after the view had looked it up.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        is_empty = isinstance(response, HttpResponseNotAllowed) and not response.content
        return not_allowed(request, response.headers["Allow"]) if is_empty else response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, TooManyAttempts):
            return too_many_attempts(request, error)
        return deleted_meanwhile(request, error) if is_about_deleted(error) else None


def too_many_attempts(request: HttpRequest, error: TooManyAttempts) -> HttpResponse:
    response = render(request, "429.html", {"reason": str(error)}, status=429)
    response.headers["Retry-After"] = str(error.seconds)
    add_never_cache_headers(response)
    return response


def busy(error: Busy) -> HttpResponse:
    return _try_again({"reason": str(error)})


def _try_again(context: dict[str, str]) -> HttpResponse:
    # Rendered without the request: a context processor may be what failed.
    response = render(None, "503.html", context, status=503)
    response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    add_never_cache_headers(response)
    return response


def deleted_meanwhile(request: HttpRequest, error: Exception) -> HttpResponse:
    log.warning("page_found_it_deleted", path=request.path, exc_info=error)
    said = str(error) if isinstance(error, NotFound) else "It has since been deleted."
    return not_found(request, Http404(f"{said} Nothing was changed."))


def not_allowed(request: HttpRequest, allowed: str) -> HttpResponse:
    _find_team(request)
    response = render(request, "405.html", status=405)
    response.headers["Allow"] = allowed
    return response


def forbidden(request: HttpRequest, exception: PermissionDenied) -> HttpResponse:
    return render(request, "403.html", {"reason": str(exception)}, status=403)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001 Django's signature
    return render(request, "403_csrf.html", status=403)


def not_found(request: HttpRequest, exception: Http404) -> HttpResponse:
    """Show only our own reason: the resolver's is a dictionary of patterns, which is not for visitors."""
    _find_team(request)
    reason = exception.args[0] if exception.args and isinstance(exception.args[0], str) else ""
    return render(request, "404.html", {"reason": reason}, status=404)


def _find_team(request: HttpRequest) -> None:
    """Set the team if no team view did, so that the error page shows the navigation."""
    if request.user.is_authenticated and not hasattr(request, "membership"):
        enter_team(cast(TeamRequest, request))


def server_error(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 Django's signature
    """Answer errors that no view or middleware caught; Django calls this while it handles the error.

    A database that is away, or out of space or memory, gives a 503: a retry may succeed a little later.
    """
    error = sys.exception()
    if isinstance(error, UNAVAILABLE):
        return _try_again({"reason": OUT_OF_TIME} if is_out_of_time(error) else {})
    return render(None, "500.html", status=500)


# Set in the session once the steps are done or dismissed, so that later pages run no query for them.
IS_OVER = "start_is_over"


@dataclass(frozen=True, slots=True)
class Step:
    """The step to take now: its number, 1 to 5, what to do, and where."""

    number: int
    title: str
    words: str
    url: str = ""
    verb: str = ""

    @property
    def done(self) -> int:
        return self.number - 1


STEPS = 5


def read_step(request: HttpRequest) -> Step | None:
    """Return the visitor's next step in one query; None for all but admins, and after the last."""
    membership: Membership | None = getattr(request, "membership", None)
    if membership is None or not membership.allows(Role.ADMIN) or request.session.get(IS_OVER):
        return None
    step = _next_step(membership.team)
    if step is None:
        request.session[IS_OVER] = True
    return step


def _next_step(team: Team) -> Step | None:
    mine = Space.objects.filter(team=OuterRef("pk"))
    facts = (
        Team.objects.filter(pk=team.pk)
        .annotate(
            has_record=Exists(Record.objects.filter(space__team=OuterRef("pk"))),
            has_assembly=Exists(Assembly.objects.filter(team=OuterRef("pk"))),
            has_key=Exists(ApiKey.objects.filter(team=OuterRef("pk"), revoked_at=None)),
            has_request=Exists(ApiKey.objects.filter(team=OuterRef("pk"), last_used_at__isnull=False)),
            space_slug=mine.order_by("id").values("slug")[:1],
        )
        .values_list("has_request", "has_key", "has_assembly", "has_record", "space_slug")
        .get()
    )
    has_request, has_key, has_assembly, has_record, slug = facts
    if has_request:
        return None
    space = reverse("dashboard:space", args=[slug]) if slug else reverse("dashboard:spaces")
    connect = reverse("dashboard:connect")
    if not slug:
        return Step(
            1, "Create a space", "A space holds the records that contexts are built from.", space, "Spaces"
        )
    if not has_record:
        return Step(
            2, "Add records", "Import a file, add a record, or take the examples.", space, "Open the space"
        )
    if not has_assembly:
        words = "Ask a question in the preview and press Assemble. You will see what would be sent, and why."
        return Step(3, "Ask a question", words, space, "Open the space")
    if not has_key:
        return Step(
            4, "Create an API key", "Your application uses it to request contexts.", connect, "Connect"
        )
    return Step(
        5,
        "Send the first request",
        "Copy the snippet and run it. This page updates when the request arrives.",
        connect,
        "Connect",
    )


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
            ("Spaces", "dashboard:spaces", ("space", "record", "import_"), "s"),
            ("Search", "dashboard:search", ("search",), ""),
        ),
    ),
    (
        "Agents",
        (
            ("Phases", "dashboard:phases", ("phase",), "p"),
            ("Retries", "dashboard:retries", ("retr",), "r"),
            ("Tasks", "dashboard:tasks", ("task", "finding"), "t"),
            ("Repositories", "dashboard:repositories", ("repositor", "index_"), ""),
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
    waiting = team.review_items.filter(state=ItemState.OPEN)[: COUNTED_MAX + 1].count()
    return f"{COUNTED_MAX}+" if waiting > COUNTED_MAX else str(waiting or "")
