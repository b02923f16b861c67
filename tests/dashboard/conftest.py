"""The cast, each with their own browser.

Tests that count queries call four of them the frame's, because every page makes them: session, user,
memberships, and the number of answers that wait for review.
"""

import json
import re
from collections.abc import Callable, Iterator

import pytest
import time_machine
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Role, Team, User
from contextopt.spaces.models import Record, Space
from tests import factories

HTMX = {"HX-Request": "true"}


def log_in(user: User) -> Client:
    """Return a client that is logged in as the user, with fewer statements than `force_login` makes."""
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[-1]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
    return client


def html_of(client: Client, url: str, *, status: int = 200, **query: str) -> str:
    response = client.get(url, query)
    assert response.status_code == status, response.content
    return response.content.decode()


def seen_in(html: str) -> dict[str, str]:
    """Return the field by which a form tells which values it was opened with."""
    return dict(re.findall(r'name="(seen)" value="(\w+)"', html))


def squeezed(html: str) -> str:
    """Return the HTML with each tag on one line, and no line breaks or white space between elements."""
    html = re.sub(r"<\w[^<>]*>", lambda tag: " ".join(tag[0].split()).replace(" >", ">"), html)
    return re.sub(r">\s+<", "><", re.sub(r"\s*\n\s*(?=<)|(?<=>)\s*\n\s*", "", html))


@pytest.fixture
def noon() -> Iterator[None]:
    """Stop the clock at `NOW`."""
    with time_machine.travel(factories.NOW, tick=False):
        yield


@pytest.fixture
def owner_client(owner: User) -> Client:
    return log_in(owner)


@pytest.fixture
def teammate_client(teammate: User) -> Client:
    return log_in(teammate)


@pytest.fixture
def outsider_client(outsider: User) -> Client:
    return log_in(outsider)


@pytest.fixture
def editor_client(team: Team) -> Client:
    return log_in(factories.make_user("edda", team, Role.EDITOR))


@pytest.fixture
def record(space: Space) -> Record:
    return factories.make_record(space, notes="first\nsecond", tags=["ops"])


@pytest.fixture
def assembly(space: Space, record: Record) -> Assembly:
    result = factories.make_assembly(space)
    return Assembly.objects.get(pk=result.id)


@pytest.fixture
def partial(owner_client: Client) -> Callable[..., str]:
    """Request the element with an id, as htmx does."""

    def get(url: str, target: str) -> str:
        response = owner_client.get(url, headers={**HTMX, "HX-Target": target})
        assert response.status_code == 200
        html = response.content.decode()
        assert "<html" not in html
        assert f'id="{target}"' in html
        return html

    return get


def figures_of(html: str) -> dict[str, object]:
    """Return the figures of a page, with shared lists put back as the page's script does."""
    island = json.loads(
        html.split('<script id="chart-data" type="application/json">')[1].split("</script>")[0]
    )
    for trace in (trace for figure in island["figures"].values() for trace in figure["data"]):
        trace.update({name: island["lists"][number] for name, number in trace.pop("lists").items()})
        if "meta" in trace:
            trace["customdata"] = [trace["meta"]["rows"] + span for span in trace["customdata"]]
    return island["figures"]
