import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from contextopt.assemblies.assemble import decide_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.log import log_assembly
from contextopt.assemblies.models import Assembly
from contextopt.people.inputs import KeyIn
from contextopt.people.keys import create_key, find_key
from contextopt.people.models import ApiKey, AuditEvent, Team, Way, hash_key
from contextopt.spaces.models import Space
from dashboard.pages.connect.codesamples import KEY_VARIABLE, fill_tabs
from dashboard.pages.connect.signals import Signal, read_signal
from tests import factories
from tests.dashboard.conftest import HTMX, html_of

URL = "/connect/"
NEW = {"name": "ci", "scope": "write"}
LIGHT = {**HTMX, "HX-Target": "light"}


def ask(client: Client, secret: str, space: Space, agent: str = "curl/8.14") -> None:
    response = client.post(
        "/api/v1/assemblies",
        {"space": space.slug},
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}", "User-Agent": agent},
    )
    assert response.status_code == 201


def test_without_a_space_there_is_one_to_create(owner_client: Client, team: Team) -> None:
    assert "Create a space with examples" in owner_client.get(URL).content.decode()
    response = owner_client.post(f"{URL}space", follow=True)
    assert response.redirect_chain[-1][0] == URL
    assert Space.objects.of(team).get().records.count() == 6
    assert 'data-fill="space">first-space' in response.content.decode()


def test_pinned_records_count_too(owner_client: Client, space: Space) -> None:
    factories.make_record(space)
    factories.make_record(space, pinned=True)
    assert "2 in Support notes so far" in owner_client.get(URL).content.decode()


def test_a_new_key_is_filled_in_once(owner_client: Client, team: Team, space: Space) -> None:
    response = owner_client.post(f"{URL}key", NEW, headers={**HTMX, "HX-Target": "connect"})
    html = response.content.decode()
    assert response.headers["Cache-Control"] == "private, no-store"
    key = ApiKey.objects.get()
    assert (key.team, key.name, key.created_by) == (team, "ci", "user:olga")
    secret = html.split('data-fill="key">')[1].split("<")[0]
    assert find_key(secret) == key
    assert "http://testserver" in html and f'data-fill="space">{space.slug}' in html
    again = owner_client.get(URL).content.decode()
    assert secret not in again
    assert "$CONTEXTOPT_KEY" in again
    # No client puts a variable of the shell into its JSON.
    assert f'data-fill="token">{secret}<' in html
    assert 'data-fill="token">ctx_…<' in again


def test_a_key_needs_a_name(owner_client: Client, space: Space) -> None:
    headers = {**HTMX, "HX-Target": "connect"}
    html = owner_client.post(f"{URL}key", {**NEW, "name": ""}, headers=headers).content.decode()
    assert 'id="key_name_error" role="alert"' in html
    assert not ApiKey.objects.exists()


def test_a_reload_would_create_another_key(owner_client: Client) -> None:
    response = owner_client.post(f"{URL}key", NEW)
    assert (response.status_code, response.headers["Location"]) == (302, URL)
    assert not ApiKey.objects.exists()


def test_only_editors_are_led_to_the_import(
    owner_client: Client, teammate_client: Client, space: Space
) -> None:
    link = f"/spaces/{space.slug}/import/"
    assert link in owner_client.get(URL).content.decode()
    assert link not in teammate_client.get(URL).content.decode()


def test_readers_are_told_why_they_cannot_create_keys(teammate_client: Client, team: Team) -> None:
    html = teammate_client.get(URL).content.decode()
    assert "Only admins and editors can create keys. Your role is viewer" in html
    assert 'aria-label="New key"' not in html
    assert teammate_client.post(f"{URL}key", NEW, headers=HTMX).status_code == 403
    assert teammate_client.post(f"{URL}space").status_code == 403
    assert not ApiKey.objects.exists() and not Space.objects.exists()


def test_the_light_turns_on_with_the_first_request(owner_client: Client, team: Team, space: Space) -> None:
    key, secret = factories.make_key(team)
    address = f"{URL}?key={key.pk}"
    assert owner_client.get(address, headers=LIGHT).status_code == 204
    ask(Client(), secret, space)
    html = owner_client.get(address, headers=LIGHT).content.decode()
    assert "First request seen" in html and ">curl<" in html
    assert f"/assemblies/{Assembly.objects.get().pk}/" in html
    # The tabs' lights are drawn again beside it.
    lights = re.findall(r'id="dot-(\w+)"\s+class="dot"\s+hx-swap-oob', html)
    assert lights == ["http"] and html.count('id="dot-') == len(Way)
    # So are the steps.
    assert html.count('class="done"') == 3


def test_the_light_of_a_revoked_key_stops(owner_client: Client, team: Team, space: Space) -> None:
    key, _ = factories.make_key(team)
    key.revoke()
    response = owner_client.get(f"{URL}?key={key.pk}", headers=LIGHT)
    html = response.content.decode()
    assert response.status_code == 286
    assert "has expired or was revoked" in html and "hx-trigger" not in html


@pytest.mark.parametrize(
    ("agent", "way"),
    [
        ("curl/8.14", Way.HTTP),
        ("contextopt-client/0.1 httpx2", Way.PYTHON),
        ("contextopt-hook/claude", Way.CLAUDE),
        ("contextopt-hook/codex", Way.CODEX),
        ("contextopt-hook/cursor", Way.CURSOR),
    ],
)
def test_each_way_has_its_light(agent: str, way: Way, team: Team, space: Space) -> None:
    key, secret = factories.make_key(team)
    ask(Client(), secret, space, agent)
    ask(Client(), secret, space, agent)
    key.refresh_from_db()
    assert list(key.ways) == [way]
    signal = read_signal(team, key)
    assert list(signal.ways) == [way]
    assert len(signal.assemblies) == 2


def test_a_prompt_without_a_context_says_why(owner_client: Client, team: Team, space: Space) -> None:
    key, _ = factories.make_key(team, name="notebook")
    key.touch(Way.GATEWAY)
    address = f"{URL}?key={key.pk}"
    assert "Its contexts of the last day appear here" in html_of(owner_client, address)
    factories.make_gateway_request(space, api_key=key, reason="timeout")
    html = html_of(owner_client, address)
    assert escape("The context took longer than the space's time limit.") in html
    assert "passed without" in html and f"/traffic/prompts/?key={key.pk}" in html
    request = AssemblyIn(space=space.slug, query="Why is the queue stuck?")
    decision = decide_space(team_id=team.pk, request=request, actor="key:notebook")
    log_assembly(decision, is_sent=False)
    html = html_of(owner_client, address)
    assert "the prompt was only audited" in html and "not with the prompt of" in html
    # The key and its first request, but no context.
    assert html.count('<li class="done">') == 2
    log_assembly(decision)
    html = html_of(owner_client, address)
    assert "only audited" not in html and html.count('<li class="done">') == 3


def test_a_context_that_did_not_arrive_is_not_called_sent(
    owner_client: Client, team: Team, space: Space
) -> None:
    key, secret = factories.make_key(team)
    Client().post(
        "/api/v1/assemblies",
        {"space": space.slug, "query": "Why is the queue stuck?", "awaits_delivery": True},
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}", "User-Agent": "contextopt-hook/claude"},
    )
    html = html_of(owner_client, f"{URL}?key={key.pk}")
    assert "The tool has not confirmed yet that it arrived." in html and "not with the prompt of" in html


def test_a_hook_leaves_out_what_is_not_relevant() -> None:
    left_out = Assembly(awaits_delivery=True, is_sent=False, warning_codes=["nothing_relevant"])
    assert "Nothing in it was relevant" in Signal({}, (left_out,)).remark
    sent = Assembly(awaits_delivery=True, is_sent=True, warning_codes=["nothing_relevant"])
    assert Signal({}, (sent,)).remark == ""


def test_another_keys_requests_light_nothing(owner_client: Client, team: Team, space: Space) -> None:
    """A light turns on after a request of that kind with this key, however many keys were used before."""
    chosen, _ = factories.make_key(team, name="chosen")
    _, secret = factories.make_key(team, name="claude: shop")
    ask(Client(), secret, space, "contextopt-hook/claude")
    assert read_signal(team, chosen).ways == {}
    assert owner_client.get(f"{URL}?key={chosen.pk}", headers=LIGHT).status_code == 204


def test_the_page_opens_on_the_key_that_was_used_last(owner_client: Client, team: Team, space: Space) -> None:
    used, secret = factories.make_key(team, name="used")
    newest, _ = factories.make_key(team, name="newest")
    assert f'value="{newest.pk}"\n            selected' in html_of(owner_client, URL)
    ask(Client(), secret, space)
    assert f'value="{used.pk}"\n            selected' in html_of(owner_client, URL)


def test_a_limited_key_is_offered_its_spaces_alone(owner_client: Client, team: Team, space: Space) -> None:
    factories.make_space(team, "other", name="Other notes")
    data = KeyIn(name="limited", spaces=["other"])
    key, _ = create_key(team=team, data=data, actor="test")
    html = html_of(owner_client, f"{URL}?key={key.pk}")
    [offered] = re.findall(r'<select id="space".*?</select>', html, re.DOTALL)
    assert "Other notes" in offered and space.name not in offered
    assert 'data-fill="space">other<' in html and 'data-fill="space">support<' not in html


def test_without_a_provider_the_gateways_tab_says_what_is_missing(
    owner_client: Client, space: Space, settings: Any
) -> None:
    settings.GATEWAY_PORT = 9_010
    html = html_of(owner_client, URL)
    assert "The gateway is at <code>http://127.0.0.1:9010</code>. No provider is configured yet." in html
    settings.ANTHROPIC_BASE_URL = "https://api.anthropic.com"
    assert "Anthropic base URL" in html_of(owner_client, URL)
    settings.GATEWAY_PORT = None
    assert "The gateway is off." in html_of(owner_client, URL)
    settings.GATEWAY_PORT, settings.LLM_BASE_URL = 9_999, "https://api.openai.com/v1"
    assert 'data-fill="gateway">http://127.0.0.1:9999' in html_of(owner_client, URL)


@pytest.mark.parametrize("secret", ["", "ctx_secret"])
def test_the_gateways_python_is_complete(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "ctx_secret")
    filled = {
        "address": "http://a",
        "gateway": "http://g",
        "space": "support",
        "question": "Why?",
        "wheel": "w",
    }
    tabs = {tab.way: tab for tab in fill_tabs(**filled, secret=secret)}
    text = "".join(part.text for part in tabs[Way.GATEWAY].snippets[2].parts)
    names: dict[str, Any] = {}
    exec(text.replace("OpenAI(", 'OpenAI(api_key="sk",'), names)
    client = names["client"]
    assert str(client.base_url) == "http://g/v1/"
    assert client.default_headers["X-Contextopt-Key"] == "ctx_secret"
    assert client.default_headers["X-Contextopt-Space"] == "support"


def test_keys_of_others_are_unknown(outsider_client: Client, owner_client: Client, team: Team) -> None:
    key, _ = factories.make_key(team, name="<theirs>")
    for text in (str(key.pk), "x", "9" * 40, "9" * 5_000):
        assert outsider_client.get(f"{URL}?key={text}").status_code == 404
    assert escape("<theirs>") in owner_client.get(f"{URL}?key={key.pk}").content.decode()
    assert "theirs" not in outsider_client.get(URL).content.decode().split("<main")[1]


def test_the_page_asks_as_often_for_twenty_keys_as_for_two(
    owner_client: Client, team: Team, space: Space, django_assert_num_queries: Callable[..., object]
) -> None:
    for wanted in (2, 20):
        while ApiKey.objects.count() < wanted:
            _, secret = factories.make_key(team)
            ask(Client(), secret, space)
        owner_client.get(URL)
        # The frame's four; the key that was used last, its assemblies, keys, spaces; whether it is one's own.
        with django_assert_num_queries(9):
            owner_client.get(URL)


def test_a_key_for_the_gateways_address(owner_client: Client, space: Space, settings: Any) -> None:
    """It is limited and ends, so it may stand in an address. No other snippet shows it."""
    settings.LLM_BASE_URL = "http://127.0.0.1:9/v1"
    new = {"name": "laptop", "scope": "gateway", "space": space.slug}
    response = owner_client.post(f"{URL}key", new, headers={**HTMX, "HX-Target": "connect"})
    html = response.content.decode()
    key = ApiKey.objects.get()
    assert (key.scope, key.space_ids) == ("gateway", [space.pk])
    assert timedelta(days=89) < key.expires_at - timezone.now() <= timedelta(days=90)
    secret = html.split("OPENAI_BASE_URL")[1].split('data-fill="token">')[1].split("<")[0]
    assert hash_key(secret) == key.secret_hash
    assert html.count(secret) == html.split('data-way="gateway"')[1].split('data-way="')[0].count(secret) == 3
    assert re.search(r'id="way-gateway"[^>]* checked', html) and html.count('autocomplete="off" checked') == 1
    assert find_key(secret) is None


def test_an_editor_has_keys_of_their_own_for_the_gateway(
    editor_client: Client,
    teammate_client: Client,
    outsider_client: Client,
    team: Team,
    space: Space,
    settings: Any,
) -> None:
    settings.LLM_BASE_URL = "http://127.0.0.1:9/v1"
    # More than that is for admins.
    new = {"name": "notebook", "space": space.slug, "scope": "admin"}
    response = editor_client.post(f"{URL}key", new, headers={**HTMX, "HX-Target": "connect"})
    key = ApiKey.objects.get()
    assert (key.name, key.scope, key.space_ids) == ("notebook", "gateway", [space.pk])
    assert key.created_by == "user:edda" and key.expires_at <= timezone.now() + timedelta(days=90)
    assert key.prefix in response.content.decode() and "only audited" in response.content.decode()
    address = f"{URL}key/{key.pk}/revoke"
    assert address in html_of(editor_client, URL) and address not in html_of(teammate_client, URL)
    for client, status in ((Client(), 302), (outsider_client, 404), (teammate_client, 403)):
        assert client.post(address).status_code == status
    assert editor_client.get(address).status_code == 405
    key.refresh_from_db()
    assert key.revoked_at is None
    for _ in range(2):
        assert editor_client.post(address).status_code == 302
    done = AuditEvent.objects.of(space.team).filter(subject="notebook").order_by("id")
    assert [(event.action, event.actor) for event in done] == [
        ("key.created", "user:edda"), ("key.revoked", "user:edda")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"name": " "}, 'id="key_name_error" role="alert"'),
        ({"space": "theirs"}, 'id="key_space_error" role="alert"'),
        ({"space": ""}, 'id="key_space_error" role="alert"'),
    ],
)
def test_an_editors_key_needs_a_name_and_a_space(
    editor_client: Client, space: Space, changed: dict[str, str], told: str
) -> None:
    factories.make_space(factories.make_team("other"), "theirs")
    new = {"name": "notebook", "space": space.slug, **changed}
    assert (
        told
        in editor_client.post(f"{URL}key", new, headers={**HTMX, "HX-Target": "connect"}).content.decode()
    )
    assert not ApiKey.objects.exists()


def test_an_editor_revokes_no_key_of_others(
    editor_client: Client, owner_client: Client, team: Team, space: Space
) -> None:
    new = {"name": "laptop", "scope": "gateway", "space": space.slug}
    owner_client.post(f"{URL}key", new, headers={**HTMX, "HX-Target": "connect"})
    response = editor_client.post(f"{URL}key/{ApiKey.objects.get().pk}/revoke", follow=True)
    assert "Only admins can revoke a key that is not their own." in response.content.decode()
    assert ApiKey.objects.usable().exists()


def test_a_key_for_the_gateways_address_needs_a_space(owner_client: Client, team: Team) -> None:
    new = {"name": "laptop", "scope": "gateway"}
    html = owner_client.post(f"{URL}key", new, headers={**HTMX, "HX-Target": "connect"}).content.decode()
    assert "is required for a key with scope gateway" in html
    assert not ApiKey.objects.exists()
