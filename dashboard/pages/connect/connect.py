"""The page Connect."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.inputs import read_digits
from contextopt.people.keys import create_key
from contextopt.people.models import ApiKey, Role, Team, Way
from contextopt.spaces.importing.pipeline import ensure_space
from contextopt.spaces.models import Space
from dashboard.kit.permissions import TeamRequest, page_for
from dashboard.kit.responses import STOP_POLLING, render_page
from dashboard.pages.connect.codesamples import LABELS, describe_gateway, fill_tabs
from dashboard.pages.guide import QUESTION, add_examples
from dashboard.pages.people.forms import KeyForm
from dashboard.pages.people.team import refuse_secret

KEYS_SHOWN = 200
REQUESTS_SHOWN = 3
# Older requests are not looked for: the page shows what arrives while it is open.
REQUESTS_WITHIN = timedelta(days=1)
# `manage.py connect` makes a key of its own for these, so they light up for any key.
AGENTS = (Way.CLAUDE, Way.CODEX, Way.CURSOR)


@dataclass(frozen=True, slots=True)
class Signal:
    """The ways seen, with the time of the first request by each, and the newest assemblies."""

    ways: dict[Way, datetime]
    assemblies: tuple[Assembly, ...] = ()

    @property
    def first(self) -> tuple[Way, datetime] | None:
        return min(self.ways.items(), key=lambda seen: seen[1], default=None)

    @property
    def newest(self) -> Assembly | None:
        return self.assemblies[0] if self.assemblies else None


def usable_keys(team: Team) -> QuerySet[ApiKey]:
    return ApiKey.objects.usable().filter(team=team).order_by("-created_at", "-id")


def read_signal(team: Team, key: ApiKey) -> Signal:
    """Return what is known of a key's requests, in two queries."""
    keys = list(usable_keys(team)[:KEYS_SHOWN])
    agents = [other for other in keys if other.pk != key.pk and set(AGENTS) & set(other.ways)]
    ways = _first_times([key]) | {
        way: moment for way, moment in _first_times(agents).items() if way in AGENTS and way not in key.ways
    }
    if not ways:
        return Signal({})
    since = timezone.now() - REQUESTS_WITHIN
    rows = Assembly.objects.of(team).filter(
        actor__in=[f"key:{each.name}" for each in [key, *agents]], created_at__gte=since
    )
    return Signal(ways, tuple(rows.select_related("space").newest_first()[:REQUESTS_SHOWN]))


def _first_times(keys: Iterable[ApiKey]) -> dict[Way, datetime]:
    """Return the earliest request by each way among the keys."""
    first: dict[Way, datetime] = {}
    for key in keys:
        for name, text in key.ways.items():
            way, moment = Way(name), datetime.fromisoformat(text)
            first[way] = min(first.get(way, moment), moment)
    return first


TEMPLATE = "dashboard/connect.html"
SPACES_SHOWN = 200
FIRST_SPACE = "first-space"
NO_CONTENT = 204


@page_for(Role.VIEWER, "GET")
def connect(request: TeamRequest) -> HttpResponse:
    """Show the page, or its light alone, for a key or else the newest.

    While nothing has arrived, a poll changes nothing.
    """
    keys = usable_keys(request.team)
    number = request.GET.get("key", "")
    key = keys.filter(pk=read_digits(number) or 0).first() if number else keys.first()
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


@page_for(Role.ADMIN, "POST")
def connect_key(request: TeamRequest) -> HttpResponse:
    """Create a key and fill it in. Only this one response contains its secret."""
    if not request.htmx:
        return refuse_secret(request, "dashboard:connect")
    form = KeyForm(request.POST, auto_id=KeyForm.ids)
    keys = usable_keys(request.team)
    if not form.is_valid():
        return _render(request, keys, keys.first(), key_form=form)
    key, secret = create_key(team=request.team, data=form.value, actor=request.actor)
    return _render(request, keys, key, secret=secret)


@page_for(Role.EDITOR, "POST")
def connect_space(request: TeamRequest) -> HttpResponse:
    """Create a first space with example records, so that the first request finds something."""
    space = ensure_space(team=request.team, slug=FIRST_SPACE, actor=request.actor)
    count = add_examples(space, actor=request.actor)
    messages.success(request, f"Space “{space.name}” has {count} example records now.")
    return redirect("dashboard:connect")


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
