"""Controls who may see a page: the visitor's team and role, and one look-up per resource.

An outsider gets 404, so that asking reveals nothing; a member without the role gets 403.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, cast, overload
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import resolve_url
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRefresh
from django_htmx.middleware import HtmxDetails

from contextopt.agents.models import Task
from contextopt.agents.tasks import find_task
from contextopt.assemblies.models import Assembly
from contextopt.errors import Conflict, NotFound
from contextopt.people.models import Membership, Role, Team, User
from contextopt.repositories.models import Repository
from contextopt.spaces.models import Record, Space
from contextopt.sql import find_one
from memory.memories.memories import find_memory
from memory.memories.models import Memory
from memory.review.models import ReviewItem
from memory.review.reservations import find_item
from memory.strategies.strategies import find_strategy

SESSION_TEAM = "team_id"


class TeamRequest(HttpRequest):
    """A request of a logged-in member, for a page of one team. `page_for` sets it up."""

    user: User
    htmx: HtmxDetails
    memberships: list[Membership]
    membership: Membership
    team: Team
    actor: str


def _way_back(request: HttpRequest) -> str:
    """Return the page to show after login; for a submitted form, the form's page and not its target."""
    if request.method in {"GET", "HEAD"}:
        return request.get_full_path()
    came_from = request.headers.get("Referer", "")
    parts = urlsplit(came_from)
    page = f"{parts.path}?{parts.query}" if parts.query else parts.path
    host = {request.get_host()}
    is_ours = all(url_has_allowed_host_and_scheme(url, host) for url in (came_from, page))
    return page if is_ours else resolve_url(settings.LOGIN_REDIRECT_URL)


def enter_team(request: TeamRequest) -> bool:
    """Set the visitor's team, the last chosen or else the first; return whether they have one."""
    rows = Membership.objects.filter(user=request.user).select_related("team").order_by("id")
    request.memberships = list(rows)
    if not request.memberships:
        return False
    chosen = request.session.get(SESSION_TEAM)
    request.membership = next((m for m in request.memberships if m.team_id == chosen), request.memberships[0])
    request.team = request.membership.team
    request.actor = f"user:{request.user.get_username()}"
    return True


def require_role(request: TeamRequest, needed: Role) -> None:
    if not request.membership.allows(needed):
        own = request.membership.get_role_display().lower()
        raise PermissionDenied(f"This requires the role {needed.label.lower()}. Your role is {own}.")


type View = Callable[..., HttpResponseBase]
type TeamView[**P] = Callable[Concatenate[TeamRequest, P], HttpResponseBase]
type FoundView[Found, **P] = Callable[Concatenate[TeamRequest, Found, P], HttpResponseBase]


@overload
def page_for[**P](
    needed: Role, methods: str, *, to_post: Role | None = None
) -> Callable[[TeamView[P]], View]: ...
@overload
def page_for[Found, **P](
    needed: Role, methods: str, find: Callable[..., Found], *, to_post: Role | None = None
) -> Callable[[FoundView[Found, P]], View]: ...
def page_for(
    needed: Role, methods: str, find: Callable[..., Any] | None = None, *, to_post: Role | None = None
) -> Callable[[View], View]:
    """Make a page of the visitor's team, for members with a role, which shows times in the team's zone.

    It takes requests by `methods`, such as "GET POST". A POST needs the role `to_post`, if that is given.
    `find` looks up what the address names, by the parts of the address that it takes; the view gets what it
    returns, and the other parts. An outsider gets 404 from `find` before the role is checked.
    """
    taken = [name for name in signature(find).parameters if name != "request"] if find else []

    def decorate(view: View) -> View:
        @require_http_methods(methods.split())
        @wraps(view)
        def inner(request: HttpRequest, /, **names: Any) -> HttpResponseBase:
            page = cast(TeamRequest, request)
            if not request.user.is_authenticated:
                # htmx would put the login page into its target, so tell it to reload instead.
                return HttpResponseClientRefresh() if page.htmx else redirect_to_login(_way_back(page))
            if not enter_team(page):
                raise PermissionDenied("You are not in a team yet. Ask an administrator to add you to one.")
            with timezone.override(ZoneInfo(page.team.time_zone)):
                own = {name: names.pop(name) for name in taken if name in names}
                found = (find(page, **own),) if find else ()
                require_role(page, to_post if to_post and request.method == "POST" else needed)
                return view(page, *found, **names)

        return inner

    return decorate


@contextmanager
def as_404() -> Iterator[None]:
    """Turn NotFound into Django's 404."""
    try:
        yield
    except NotFound as error:
        raise Http404(str(error)) from error


@contextmanager
def as_message(request: HttpRequest, refused: str = "") -> Iterator[None]:
    """Show a conflict as a message on the next page, after the words `refused`."""
    try:
        yield
    except Conflict as error:
        messages.error(request, f"{refused} {error}".strip())


@as_404()
def get_member(request: TeamRequest, membership_id: int) -> Membership:
    rows = Membership.objects.filter(team=request.team).select_related("user")
    return find_one(rows.filter(pk=membership_id), f"member {membership_id}")


@as_404()
def get_space(request: TeamRequest, slug: str) -> Space:
    return Space.objects.find(request.team.pk, slug)


@as_404()
def get_record(request: TeamRequest, slug: str, record_id: int) -> Record:
    rows = Record.objects.filter(space__team=request.team, space__slug=slug, pk=record_id)
    return find_one(rows.select_related("space__team"), f"record {record_id}")


@as_404()
def get_assembly(request: TeamRequest, assembly_id: int, *related: Any) -> Assembly:
    rows = Assembly.objects.of(request.team).select_related("space", *related)
    return find_one(rows.filter(pk=assembly_id), f"assembly {assembly_id}")


@as_404()
def get_task(request: TeamRequest, task_id: int) -> Task:
    return find_task(request.team.pk, task_id)


@as_404()
def get_repository(request: TeamRequest, repository_id: int) -> Repository:
    rows = Repository.objects.of(request.team).filter(pk=repository_id)
    return find_one(rows, f"repository {repository_id}")


@as_404()
def get_memory(request: TeamRequest, memory_id: int) -> Memory:
    return find_memory(request.team.pk, memory_id)


@as_404()
def get_strategy(request: TeamRequest, memory_id: int) -> Memory:
    return find_strategy(request.team, memory_id)


@as_404()
def get_review(request: TeamRequest, item_id: int) -> ReviewItem:
    return find_item(request.team, item_id)
