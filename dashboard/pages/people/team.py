"""The team: its name and time zone, its people, its keys, and its demo data."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.forms import model_to_dict
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.functional import SimpleLazyObject
from kombu.exceptions import OperationalError

from contextopt.errors import Conflict
from contextopt.inputs import read_digits
from contextopt.people.keys import create_key, revoke_key, rotate_key
from contextopt.people.members import update_team
from contextopt.people.models import ApiKey, Invitation, Role, time_zones
from contextopt.search.vectors.storage import embedding_status
from contextopt.spaces.models import Space
from contextopt.sql import find_one
from dashboard import tasks
from dashboard.demo import remove_demo
from dashboard.kit.permissions import SESSION_TEAM, TeamRequest, as_404, page_for
from dashboard.kit.responses import STOP_POLLING, render_page
from dashboard.pages.people.forms import InvitationForm, LimitedKeyForm, RotationForm, TeamForm

TEMPLATE = "dashboard/settings.html"
ROWS_SHOWN = 200
INVITATIONS_SHOWN = 50
# Two minutes of polling every two seconds.
DEMO_POLLS = 60


@page_for(Role.VIEWER, "GET")
def settings(request: TeamRequest) -> HttpResponse:
    """Show the settings; while texts are being embedded, their panel polls for the progress."""
    is_over = request.htmx.target == "embeddings" and embedding_status().is_settled
    return render_settings(request, status=STOP_POLLING if is_over else 200)


@page_for(Role.ADMIN, "POST")
def settings_team(request: TeamRequest) -> HttpResponse:
    form = TeamForm(request.POST)
    if not form.is_valid():
        return render_settings(request, team_form=form, status=422)
    update_team(team=request.team, fields=form.cleaned_data, actor=request.actor)
    messages.success(request, "Saved.")
    return redirect("dashboard:settings")


@page_for(Role.ADMIN, "POST")
def key_create(request: TeamRequest) -> HttpResponse:
    """Create a key. Only this one response contains its secret."""
    if not request.htmx:
        return refuse_secret(request)
    form = LimitedKeyForm(request.POST, auto_id=LimitedKeyForm.ids)
    if form.is_valid():
        with form.refusals():
            key, secret = create_key(team=request.team, data=form.value, actor=request.actor)
            return render_settings(request, secret=secret, new_key=key)
    return render_settings(request, key_form=form)


@as_404()
def get_key(request: TeamRequest, key_id: int) -> ApiKey:
    return find_one(ApiKey.objects.filter(team=request.team, pk=key_id), f"key {key_id}")


@page_for(Role.ADMIN, "POST", get_key)
def key_rotate(request: TeamRequest, found: ApiKey) -> HttpResponse:
    """Create a key in place of another. Only this one response contains its secret."""
    if not request.htmx:
        return refuse_secret(request)
    form = RotationForm(request.POST)
    if not form.is_valid():
        raise BadRequest("The overlap is not one of the choices.")
    try:
        key, secret = rotate_key(key=found, data=form.value, actor=request.actor)
    except Conflict as error:
        return render_settings(request, conflict=str(error))
    return render_settings(request, secret=secret, new_key=key)


def refuse_secret(request: TeamRequest, page: str = "dashboard:settings") -> HttpResponse:
    """Refuse to create a secret for a full-page response: reloading it would create another one."""
    messages.error(
        request,
        "Creating a key needs JavaScript, because the secret is shown only once. Nothing was created.",
    )
    return redirect(page)


@page_for(Role.ADMIN, "POST", get_key)
def key_revoke(request: TeamRequest, found: ApiKey) -> HttpResponse:
    revoke_key(key=found, actor=request.actor)
    messages.success(request, f"Key “{found.name}” revoked.")
    return redirect("dashboard:settings")


@page_for(Role.VIEWER, "POST")
def switch_team(request: TeamRequest) -> HttpResponse:
    wanted = request.POST.get("team", "")
    chosen = next((m for m in request.memberships if str(m.team_id) == wanted), None)
    if chosen is None:
        raise Http404("No such team.")
    request.session[SESSION_TEAM] = chosen.team_id
    return redirect("dashboard:overview")


@page_for(Role.ADMIN, "POST")
def demo_load(request: TeamRequest) -> HttpResponse:
    try:
        tasks.load_demo.delay(request.team.pk)
    except OperationalError:
        messages.error(request, "The job queue is not responding. Is the worker running?")
        return redirect("dashboard:overview")
    return redirect("dashboard:demo_status")


@page_for(Role.VIEWER, "GET")
def demo_status(request: TeamRequest) -> HttpResponse:
    """Show whether the demo is loaded: it is loaded whole or not at all."""
    polls = read_digits(request.GET.get("polls", "")) or 0
    is_done = Space.objects.of(request.team).filter(is_demo=True).exists()
    context = {"is_done": is_done, "polls": polls + 1, "is_stuck": polls >= DEMO_POLLS}
    is_over = is_done or polls >= DEMO_POLLS
    status = STOP_POLLING if is_over and request.htmx else 200
    return render_page(request, "dashboard/demo.html", context, partials=("demo",), status=status)


@page_for(Role.ADMIN, "POST")
def demo_remove(request: TeamRequest) -> HttpResponse:
    remove_demo(request.team, actor=request.actor)
    messages.success(request, "Demo data removed.")
    return redirect("dashboard:overview")


def _for_admins(request: TeamRequest) -> dict[str, Any]:
    """Return the invitations, their form, and the admin who cannot be removed, if the visitor is an admin."""
    if not request.membership.allows(Role.ADMIN):
        return {}
    rows = Invitation.objects.filter(team=request.team).order_by("-created_at")[:INVITATIONS_SHOWN]
    admins = request.team.memberships.filter(role=Role.ADMIN, user__is_active=True)
    first = admins.values_list("pk", flat=True)[:2]
    return {
        "invitation_form": InvitationForm(auto_id=InvitationForm.ids),
        "invitations": rows,
        "sole_admin": first[0] if len(first) == 1 else None,
    }


def render_settings(
    request: TeamRequest,
    *,
    team_form: TeamForm | None = None,
    key_form: LimitedKeyForm | None = None,
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    """Render the settings; `more` is the result of an action, which may be a secret."""
    team = request.team
    context = {
        "team_form": team_form or TeamForm(initial=model_to_dict(team, TeamForm.base_fields)),
        "key_form": key_form or LimitedKeyForm(auto_id=LimitedKeyForm.ids),
        "overlap": RotationForm.base_fields["overlap_hours"],
        "keys": ApiKey.objects.with_space_slugs()
        .filter(team=team)
        .order_by("revoked_at", "-created_at")[:ROWS_SHOWN],
        "members": team.memberships.select_related("user").order_by("user__username")[:ROWS_SHOWN],
        "roles": Role.choices,
        **_for_admins(request),
        "time_zones": time_zones,
        "embedding": embedding_status(),
        "first_space": SimpleLazyObject(lambda: Space.objects.of(team).order_by("id").first()),
        "demo": Space.objects.of(team).filter(is_demo=True).order_by("name").values_list("name", flat=True),
        **more,
    }
    return render_page(request, TEMPLATE, context, partials=("keys", "members", "embeddings"), status=status)
