"""Making a connect code on the page, and exchanging it for a key, as the command does."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from contextopt.people.models import ApiKey, ConnectCode, Role, Team
from contextopt.spaces.models import Space
from tests import factories
from tests.dashboard.conftest import HTMX, log_in

URL = "/connect/"
LOCAL = {"HTTP_HOST": "127.0.0.1:8000"}
PART = {**HTMX, "HX-Target": "connect"}
LIGHT = {**HTMX, "HX-Target": "light"}


def make(client: Client, **data: Any) -> str:
    """Make a code on the page, and return its text."""
    response = client.post(f"{URL}code", {"space": "support", **data}, headers=PART, **LOCAL)
    assert response.headers["Cache-Control"] == "private, no-store"
    codes = set(re.findall(r'data-fill="once">([^<]+)<', response.content.decode()))
    assert len(codes) == 1
    return codes.pop()


def redeem(code: object, client: Client | None = None, **options: Any) -> Any:
    body = {"code": code, "tool": "claude", "machine": "laptop"}
    sent = {**LOCAL, "content_type": "application/json", **options}
    return (client or Client()).post(f"{URL}redeem", json.dumps(body), **sent)


def test_from_the_page_to_a_key(editor_client: Client, team: Team, space: Space, settings: Any) -> None:
    settings.GATEWAY_PORT, settings.LLM_BASE_URL = 9_010, "https://api.openai.com/v1"
    answer = redeem(make(editor_client))
    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "private, no-store"
    key = ApiKey.objects.get()
    given = answer.json()
    assert given["key"].startswith(key.prefix)
    del given["key"]
    assert given == {
        "key_id": key.pk,
        "name": "Claude Code: edda on laptop",
        "team": team.name,
        "space": space.slug,
        "gateway": {"url": "http://127.0.0.1:9010", "openai": True, "anthropic": False},
    }


def test_the_command_needs_no_name_in_an_index(editor_client: Client, space: Space) -> None:
    response = editor_client.post(f"{URL}code", {"space": "support"}, headers=PART, **LOCAL)
    text = re.sub(r"<[^>]+>", "", response.content.decode())
    [command] = re.findall(r"pipx run --no-cache --spec (\S+) contextopt connect claude --code \S+", text)
    assert command.startswith("http://127.0.0.1:8000/connect/contextopt_client-")
    assert Client().get(command.removeprefix("http://127.0.0.1:8000"), **LOCAL).status_code == 200


def test_the_light_follows_the_code(editor_client: Client, space: Space) -> None:
    code = make(editor_client)
    address = f"{URL}?code={ConnectCode.objects.get().pk}"
    assert editor_client.get(address, headers=LIGHT).status_code == 204
    secret = redeem(code).json()["key"]
    html = editor_client.get(address, headers=LIGHT).content.decode()
    assert "on laptop" in html and "Waiting for the first request" in html
    assert 'class="dot"' not in html.split("hx-swap-oob")[-1]
    asked = {"Authorization": f"Bearer {secret}", "User-Agent": "contextopt-connect/claude"}
    # The command itself is no request of Claude Code's.
    assert Client().get("/api/v1/me", headers=asked).status_code == 200
    assert "Waiting for the first request" in editor_client.get(address, headers=LIGHT).content.decode()
    asked["User-Agent"] = "contextopt-hook/claude"
    Client().post("/api/v1/assemblies", {"space": "support"}, content_type="application/json", headers=asked)
    assert "First request seen" in editor_client.get(address, headers=LIGHT).content.decode()


@pytest.mark.parametrize("number", ["x", "9" * 40, "0"])
def test_a_code_of_nobody_is_not_found(number: str, editor_client: Client, space: Space) -> None:
    assert editor_client.get(f"{URL}?code={number}").status_code == 404
    assert editor_client.get(f"{URL}?code={number}", headers=LIGHT).status_code == 286


def test_a_teammates_code_is_not_shown(editor_client: Client, owner_client: Client, space: Space) -> None:
    make(editor_client)
    assert owner_client.get(f"{URL}?code={ConnectCode.objects.get().pk}").status_code == 404


def test_a_code_opens_its_own_team_alone(
    editor_client: Client, outsider_client: Client, other_team: Team, space: Space
) -> None:
    factories.make_space(other_team, "theirs")
    secret = redeem(make(editor_client)).json()["key"]
    theirs = Client().get("/api/v1/spaces/theirs", headers={"X-API-Key": secret})
    assert theirs.status_code == 404
    refused = editor_client.post(f"{URL}code", {"space": "theirs"}, headers=PART, **LOCAL)
    assert "Select a valid choice" in refused.content.decode()
    assert ConnectCode.objects.count() == 1


def test_a_limited_code(editor_client: Client, team: Team, space: Space) -> None:
    factories.make_space(team, "other")
    redeem(make(editor_client, spaces=["support"]))
    assert ApiKey.objects.get().space_ids == [space.pk]
    html = editor_client.post(
        f"{URL}code", {"space": "support", "spaces": ["other"]}, headers=PART, **LOCAL
    ).content.decode()
    assert "ust include" in html and 'role="alert"' in html


def test_a_reload_would_make_another_code(editor_client: Client, space: Space) -> None:
    assert editor_client.post(f"{URL}code", {"space": "support"}, **LOCAL).status_code == 302
    assert not ConnectCode.objects.exists()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.REVIEWER])
def test_other_roles_are_told(role: Role, team: Team, space: Space) -> None:
    client = log_in(factories.make_user("vera", team, role))
    assert "requires the role editor" in client.get(URL, **LOCAL).content.decode()
    assert client.post(f"{URL}code", {"space": "support"}, headers=PART, **LOCAL).status_code == 403


IN_CLEAR = [
    {"HTTP_HOST": "testserver"},
    {**LOCAL, "HTTP_X_FORWARDED_FOR": "192.0.2.1"},
    {**LOCAL, "HTTP_FORWARDED": "for=192.0.2.1"},
    {"HTTP_HOST": "127.0.0.1.example.com"},
]


@pytest.mark.parametrize("place", IN_CLEAR)
def test_in_clear_there_are_no_codes(
    place: dict[str, str], editor_client: Client, space: Space, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    code = make(editor_client)
    assert "only over HTTPS" in editor_client.get(URL, **place).content.decode()
    html = editor_client.post(f"{URL}code", {"space": "support"}, headers=PART, **place).content.decode()
    assert "only over HTTPS" in html and ConnectCode.objects.count() == 1
    refused = redeem(code, **place)
    assert (refused.status_code, refused.headers["Content-Type"]) == (403, "application/problem+json")
    assert redeem(code, **{**place, "secure": True}).status_code == 201


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1", "[::1]:8000"])
def test_loopback_has_several_names(host: str, editor_client: Client, space: Space) -> None:
    assert redeem(make(editor_client), HTTP_HOST=host).status_code == 201


def test_five_wrong_codes_an_address(editor_client: Client, space: Space) -> None:
    code = make(editor_client)
    for _ in range(5):
        wrong = redeem("0000-0000")
        assert (wrong.status_code, wrong.json()["type"].rpartition(":")[2]) == (404, "not-found")
    late = redeem(code)
    assert late.status_code == 429 and int(late.headers["Retry-After"]) > 600
    assert redeem(code, REMOTE_ADDR="192.0.2.7").status_code == 201


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 422),
        (b"{}", 422),
        (b'{"code": 1, "tool": "claude"}', 422),
        (b'{"code": "a", "code": "b", "tool": "claude"}', 422),
        (b'{"code": "0000-0000", "tool": "vim"}', 422),
        (b'{"code": "0000-0000", "tool": "claude", "scope": "admin"}', 422),
        (b'{"code": "0000-0000", "tool": "claude", "machine": "' + b"m" * 61 + b'"}', 422),
        (b" " * 5_000, 413),
    ],
)
def test_bad_input(body: bytes, status: int, db: None) -> None:
    response = Client().post(f"{URL}redeem", body, content_type="application/json", **LOCAL)
    assert (response.status_code, response.headers["Content-Type"]) == (status, "application/problem+json")


def test_it_is_posted(db: None) -> None:
    assert Client().get(f"{URL}redeem").status_code == 405


def test_a_sites_cookie_changes_nothing(editor_client: Client, space: Space) -> None:
    """The address takes requests without a token against forgery, so it must not act for the visitor."""
    assert redeem("0000-0000", Client(enforce_csrf_checks=True)).status_code == 404
    assert redeem("0000-0000", editor_client).status_code == 404


def test_redeeming_takes_the_same_statements(
    editor_client: Client, space: Space, django_assert_num_queries: Callable[..., Any]
) -> None:
    code = make(editor_client)
    # The address's tries; a savepoint each around code and key; the code, its membership, the key, the code's
    # change, two log entries; the tries again.
    with django_assert_num_queries(13):
        redeem(code)
