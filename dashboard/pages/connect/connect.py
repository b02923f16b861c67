"""The page Connect."""

from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from contextopt.errors import Conflict
from contextopt.gateway.policies import read_policy
from contextopt.people.connectcodes import GATEWAY_DAYS, NEEDED, make_code, make_gateway_key, own_keys
from contextopt.people.keys import create_key, revoke_key
from contextopt.people.models import ApiKey, Role, Scope, Team, Way
from contextopt.spaces.importing.pipeline import ensure_space
from contextopt.spaces.models import Space
from dashboard.kit.permissions import TeamRequest, page_for
from dashboard.kit.responses import STOP_POLLING, render_page
from dashboard.pages.connect.codes import (
    IN_CLEAR,
    CodeForm,
    ConnectKeyForm,
    GatewayKeyForm,
    is_private,
    key_form,
)
from dashboard.pages.connect.codesamples import LABELS, describe_gateway, fill_tabs
from dashboard.pages.connect.signals import (
    Signal,
    Subject,
    find_subject,
    list_steps,
    read_signal,
    usable_keys,
)
from dashboard.pages.connect.wheel import wheel_name
from dashboard.pages.guide import QUESTION, add_examples
from dashboard.pages.people.team import get_key, refuse_secret

KEYS_SHOWN = 200
TEMPLATE = "dashboard/connect.html"
SPACES_SHOWN = 200
FIRST_SPACE = "first-space"
NO_CONTENT = 204


@page_for(Role.VIEWER, "GET")
def connect(request: TeamRequest) -> HttpResponse:
    """Show the page, or its light alone, for a key or code, or else for the key that was used last.

    While nothing has arrived, a poll changes nothing.
    """
    keys = usable_keys(request.team)
    if request.htmx.target == "light":
        return _render_light(request, keys)
    return _render(request, find_subject(request, keys))


def _render_light(request: TeamRequest, keys: QuerySet[ApiKey]) -> HttpResponse:
    """Answer a poll. A key or code that is no longer valid is polled no longer."""
    try:
        subject, is_gone = find_subject(request, keys), False
    except Http404:
        subject, is_gone = Subject(None), True
    signal = read_signal(request.team, subject.key)
    is_new = subject.code is not None and subject.key is not None
    if not is_gone and not signal.ways and not is_new:
        return HttpResponse(status=NO_CONTENT)
    context = {
        "subject": subject,
        "is_gone": is_gone,
        "signal": signal,
        "steps": list_steps(subject, signal),
        "is_partial": True,
    }
    status = STOP_POLLING if is_gone else 200
    return render_page(
        request, TEMPLATE, {**context, **_tabs(request, subject, signal)}, partials=("light",), status=status
    )


@page_for(NEEDED, "POST")
def connect_key(request: TeamRequest) -> HttpResponse:
    """Create a key and fill it in: an admin any, an editor their own for the gateway. Only this one response
    contains its secret.
    """
    if not request.htmx:
        return refuse_secret(request, "dashboard:connect")
    form = key_form(request, list_spaces(request.team), request.POST)
    if form.is_valid():
        with form.refusals():
            if isinstance(form, GatewayKeyForm):
                key, secret = make_gateway_key(team=request.team, user=request.user, data=form.value)
            else:
                key, secret = create_key(team=request.team, data=form.value, actor=request.actor)
            return _render(request, Subject(key), secret=secret)
    return _render(request, Subject(usable_keys(request.team).first()), wrong_key=form)


@page_for(NEEDED, "POST", get_key)
def connect_revoke(request: TeamRequest, found: ApiKey) -> HttpResponse:
    """Revoke a key of the visitor's own. Others are for admins, under Settings."""
    if is_own(request, found):
        revoke_key(key=found, actor=request.actor)
        messages.success(request, f"Key “{found.name}” revoked.")
    else:
        messages.error(request, "Only admins can revoke a key that is not their own.")
    return redirect("dashboard:connect")


def is_own(request: TeamRequest, key: ApiKey) -> bool:
    return own_keys(team=request.team, user=request.user).filter(pk=key.pk).exists()


@page_for(NEEDED, "POST")
def connect_code(request: TeamRequest) -> HttpResponse:
    """Make a connect code and fill it in. Only this one response contains it."""
    if not request.htmx:
        return refuse_secret(request, "dashboard:connect")
    form = CodeForm(list_spaces(request.team), request.POST, auto_id=CodeForm.ids)
    if form.is_valid():
        with form.refusals():
            if not is_private(request):
                raise Conflict(IN_CLEAR)
            code, text = make_code(team=request.team, user=request.user, data=form.value)
            return _render(request, Subject(None, code), code=text)
    return _render(request, Subject(usable_keys(request.team).first()), wrong_code=form)


@page_for(Role.EDITOR, "POST")
def connect_space(request: TeamRequest) -> HttpResponse:
    """Create a first space with example records, so that the first request finds something."""
    space = ensure_space(team=request.team, slug=FIRST_SPACE, actor=request.actor)
    count = add_examples(space, actor=request.actor)
    messages.success(request, f"Space “{space.name}” has {count} example records now.")
    return redirect("dashboard:connect")


def _render(
    request: TeamRequest,
    subject: Subject,
    *,
    secret: str = "",
    code: str = "",
    wrong_key: ConnectKeyForm | GatewayKeyForm | None = None,
    wrong_code: CodeForm | None = None,
) -> HttpResponse:
    signal = read_signal(request.team, subject.key)
    key = subject.key
    # Requests are logged under the key's name, so each key should have its own.
    initial = {"name": f"application {key.pk + 1}" if key else "my application", "scope": "write"}
    tabs = _tabs(request, subject, signal, secret=secret, code=code)
    context = {
        "keys": list(usable_keys(request.team)[:KEYS_SHOWN]),
        "subject": subject,
        "steps": list_steps(subject, signal),
        "key_form": wrong_key or key_form(request, tabs["spaces"], initial=initial),
        "code_form": wrong_code or CodeForm(tabs["spaces"], auto_id=CodeForm.ids),
        "is_own": key is not None and is_own(request, key),
        "secret": secret,
        "code": code,
        "is_private": is_private(request),
        "in_clear": IN_CLEAR,
        "gateway_days": GATEWAY_DAYS,
        "signal": signal,
        "policy": read_policy(tabs["space"]) if tabs["space"] and tabs["has_openai"] else None,
        **tabs,
    }
    return render_page(request, TEMPLATE, context, partials=("connect",))


def list_spaces(team: Team) -> list[Space]:
    return list(Space.objects.of(team).with_counts().order_by("id")[:SPACES_SHOWN])


def _tabs(
    request: TeamRequest, subject: Subject, signal: Signal, *, secret: str = "", code: str = ""
) -> dict[str, Any]:
    """Return the tabs and what they were filled with."""
    spaces = list_spaces(request.team)
    key, made = subject.key, subject.code
    limits = key.space_ids if key else None
    offered = [each for each in spaces if limits is None or each.pk in limits]
    chosen = made.space_id if made else None
    space = next((each for each in offered if each.pk == chosen), offered[0] if offered else None)
    address = request.build_absolute_uri(reverse("dashboard:overview")).rstrip("/")
    gateway = describe_gateway(request)
    is_for_path = key is not None and key.scope == Scope.GATEWAY
    tabs = fill_tabs(
        address=address,
        gateway=gateway["gateway"],
        space=space.slug if space else FIRST_SPACE,
        question=QUESTION,
        wheel=f"{address}{reverse('dashboard:connect_wheel', args=[wheel_name()])}",
        secret="" if is_for_path else secret,
        gateway_secret=secret,
        code=code,
    )
    first = signal.first
    return {
        **gateway,
        "opened": Way.GATEWAY if is_for_path else first[0] if first and not made else tabs[0].way,
        "spaces": spaces,
        "offered": offered,
        "space": space,
        "tabs": tabs,
        "first_way": LABELS[first[0]] if first else "",
        "first_seen": first[1] if first else None,
    }
