"""People: who is in the team, who is invited, and one's own password."""

from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth import login, update_session_auth_hash
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_POST

from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.people import members
from contextopt.people.models import Invitation, Membership, Role, User
from dashboard.kit.permissions import (
    SESSION_TEAM,
    TeamRequest,
    as_404,
    as_message,
    get_member,
    page_for,
)
from dashboard.kit.responses import render_page
from dashboard.pages.people.forms import AccountForm, InvitationForm, PasswordForm, RoleForm
from dashboard.pages.people.team import refuse_secret, render_settings

INVITATION = "dashboard/invitation.html"
BACKEND = "django.contrib.auth.backends.ModelBackend"
MEMBERS = "/settings/#members"


@page_for(Role.ADMIN, "POST", get_member)
def member_role(request: TeamRequest, member: Membership) -> HttpResponse:
    """Give a member the role that the form names, or for Undo the query string."""
    form = RoleForm({**request.GET.dict(), **request.POST.dict()})
    if not form.is_valid():
        messages.error(request, "Choose a role.")
        return redirect(MEMBERS)
    try:
        changed = members.change_role(
            membership=member, role=Role(form.cleaned_data["role"]), actor=request.actor
        )
    except (Conflict, NotFound) as error:
        messages.error(request, str(error))
    else:
        # Only another admin can undo giving up one's own admin role.
        can_undo = changed.role != member.role and member.user_id != request.user.pk
        undo = f"{request.path}?{urlencode({'role': member.role})}" if can_undo else ""
        role = Role(changed.role).label.lower()
        messages.success(request, f"{member.user.get_username()} is now {role}.", extra_tags=undo)
    return redirect(MEMBERS)


@page_for(Role.ADMIN, "POST", get_member)
def member_remove(request: TeamRequest, member: Membership) -> HttpResponse:
    try:
        members.remove_member(membership=member, actor=request.actor)
    except (Conflict, NotFound) as error:
        messages.error(request, str(error))
        return redirect(MEMBERS)
    messages.success(request, f"{member.user.get_username()} is no longer in the team.")
    return redirect("dashboard:overview" if member.user_id == request.user.pk else MEMBERS)


@page_for(Role.ADMIN, "POST")
def invitation_create(request: TeamRequest) -> HttpResponse:
    """Create an invitation. Only this one response contains its link."""
    if not request.htmx:
        return refuse_secret(request)
    form = InvitationForm(request.POST, auto_id=InvitationForm.ids)
    if form.is_valid():
        with form.refusals():
            made, token = members.invite(team=request.team, data=form.value, actor=request.actor)
            link = request.build_absolute_uri(reverse("dashboard:invitation", args=[token]))
            return render_settings(request, invited=made, link=link)
    return render_settings(request, invitation_form=form)


def get_invitation(request: TeamRequest, invitation_id: int) -> Invitation:
    found = Invitation.objects.filter(team=request.team, pk=invitation_id).first()
    if found is None:
        raise Http404("No such invitation.")
    return found


@page_for(Role.ADMIN, "POST", get_invitation)
def invitation_revoke(request: TeamRequest, found: Invitation) -> HttpResponse:
    with as_message(request):
        members.revoke_invitation(invitation=found, actor=request.actor)
        messages.success(request, f"Invitation for {found.name} revoked.")
    return redirect(MEMBERS)


@never_cache
@require_GET
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Show the page behind an invitation's link, even to people without an account."""
    return _render_invitation(request, _find(token), AccountForm())


@sensitive_post_parameters("password")
@never_cache
@require_POST
def invitation_join(request: HttpRequest, token: str) -> HttpResponse:
    """Accept the invitation as the logged-in user, or with a new account."""
    found = _find(token)
    if request.user.is_authenticated:
        try:
            joined = members.accept_as_user(token=token, user=request.user)
        except Conflict as error:
            messages.info(request, str(error))
            return redirect("dashboard:overview")
        return _enter(request, joined)
    form = AccountForm(request.POST)
    if not form.is_valid():
        return _render_invitation(request, found, form, status=422)
    try:
        joined = members.accept_with_account(token=token, data=form.value)
    except InvalidInput as error:
        form.add_problems(error.problems)
        return _render_invitation(request, found, form, status=422)
    login(request, joined.user, backend=BACKEND)
    return _enter(request, joined)


@as_404()
def _find(token: str) -> Invitation:
    return members.find_invitation(token)


def _render_invitation(
    request: HttpRequest, found: Invitation, form: AccountForm, status: int = 200
) -> HttpResponse:
    context = {"invitation": found, "form": form, "token_path": request.path.removesuffix("join")}
    return render(request, INVITATION, context, status=status)


def _enter(request: HttpRequest, joined: Membership) -> HttpResponse:
    request.session[SESSION_TEAM] = joined.team_id
    messages.success(request, f"Welcome to {joined.team}.")
    return redirect("dashboard:overview")


@sensitive_post_parameters()
@never_cache
@page_for(Role.VIEWER, "GET POST")
def password(request: TeamRequest) -> HttpResponse:
    """Change one's own password, which logs out every other session."""
    user: User = request.user
    form = PasswordForm(request, request.POST or None)
    if request.method == "POST" and form.is_valid():
        members.change_password(user=user, password=form.cleaned_data["new_password1"])
        update_session_auth_hash(request, user)
        messages.success(request, "Password changed. You were logged out everywhere else.")
        return redirect("dashboard:settings")
    status = 422 if form.errors else 200
    return render_page(request, "dashboard/password.html", {"form": form}, status=status)
