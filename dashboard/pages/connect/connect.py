"""The page Connect."""

from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from contextopt.inputs import read_digits
from contextopt.models import ApiKey, Role, Space
from contextopt.people.keys import create_key
from contextopt.spaces.importing import ensure_space
from dashboard.kit.access import TeamRequest, require_role, team_page
from dashboard.kit.gateway import describe_gateway
from dashboard.kit.pages import STOP_POLLING, render_page
from dashboard.pages.connect.signal import KEYS_SHOWN, Signal, read_signal, usable_keys
from dashboard.pages.connect.snippets import LABELS, fill_tabs
from dashboard.pages.people.forms import KeyForm
from dashboard.pages.people.team import refuse_secret
from dashboard.pages.start import QUESTION, add_examples

TEMPLATE = "dashboard/connect.html"
SPACES_SHOWN = 200
FIRST_SPACE = "first-space"
NO_CONTENT = 204


@require_GET
@team_page
def connect(request: TeamRequest) -> HttpResponse:
    """Show the page, or its light alone. While nothing has arrived, a poll changes nothing."""
    keys = usable_keys(request.team)
    number = request.GET.get("key", "")
    key = _chosen(keys, number)
    if request.htmx.target == "light":
        return _render_light(request, key)
    if number and key is None:
        raise Http404("No such key.")
    return _render(request, keys, key)


def _render_light(request: TeamRequest, key: ApiKey | None) -> HttpResponse:
    """Answer a poll. A key that has expired or was revoked in the meantime is polled no longer."""
    signal = Signal({}) if key is None else read_signal(request.team, key)
    if key is not None and not signal.ways:
        return HttpResponse(status=NO_CONTENT)
    context = {"key": key, "is_gone": key is None, "signal": signal, "is_partial": True}
    status = 200 if key else STOP_POLLING
    return render_page(
        request, TEMPLATE, {**context, **_tabs(request, signal)}, partials=("light",), status=status
    )


@require_POST
@team_page
def connect_key(request: TeamRequest) -> HttpResponse:
    """Create a key and fill it in. Only this one response contains its secret."""
    require_role(request, Role.ADMIN)
    if not request.htmx:
        return refuse_secret(request, "dashboard:connect")
    form = KeyForm(request.POST, auto_id=KeyForm.ids)
    keys = usable_keys(request.team)
    if not form.is_valid():
        return _render(request, keys, keys.first(), key_form=form)
    key, secret = create_key(team=request.team, data=form.value, actor=request.actor)
    return _render(request, keys, key, secret=secret)


@require_POST
@team_page
def connect_space(request: TeamRequest) -> HttpResponse:
    """Create a first space with example records, so that the first request finds something."""
    require_role(request, Role.EDITOR)
    space = ensure_space(team=request.team, slug=FIRST_SPACE, actor=request.actor)
    count = add_examples(space, actor=request.actor)
    messages.success(request, f"Space “{space.name}” has {count} example records now.")
    return redirect("dashboard:connect")


def _chosen(keys: QuerySet[ApiKey], text: str) -> ApiKey | None:
    """Return the key with this number; without a number the newest, if there is one."""
    return keys.filter(pk=read_digits(text) or 0).first() if text else keys.first()


def _render(
    request: TeamRequest,
    keys: QuerySet[ApiKey],
    key: ApiKey | None,
    *,
    secret: str = "",
    key_form: KeyForm | None = None,
) -> HttpResponse:
    signal = Signal({}) if key is None else read_signal(request.team, key)
    # Requests are logged under the key's name, so each key should have its own.
    initial = {"name": f"application {key.pk + 1}" if key else "my application", "scope": "write"}
    context = {
        "keys": keys[:KEYS_SHOWN],
        "key": key,
        "key_form": key_form or KeyForm(auto_id=KeyForm.ids, initial=initial),
        "secret": secret,
        "signal": signal,
        **_tabs(request, signal, secret),
    }
    return render_page(request, TEMPLATE, context, partials=("connect",))


def _tabs(request: TeamRequest, signal: Signal, secret: str = "") -> dict[str, Any]:
    """Return the tabs and what they were filled with."""
    spaces = list(Space.objects.of(request.team).with_counts().order_by("id")[:SPACES_SHOWN])
    space = spaces[0] if spaces else None
    address = request.build_absolute_uri(reverse("dashboard:overview")).rstrip("/")
    gateway = describe_gateway(request)
    tabs = fill_tabs(
        address=address,
        gateway=gateway["gateway"],
        space=space.slug if space else FIRST_SPACE,
        question=QUESTION,
        team=request.team,
        secret=secret,
    )
    first = signal.first
    return {
        **gateway,
        "spaces": spaces,
        "space": space,
        "tabs": tabs,
        "first_way": LABELS[first[0]] if first else "",
        "first_seen": first[1] if first else None,
    }
