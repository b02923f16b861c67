from types import MappingProxyType

import pytest
from django.test import Client
from django.urls import reverse

from contextopt.people.inputs import KeyIn
from contextopt.people.keys import create_key, find_key
from contextopt.people.models import ApiKey, Invitation, Team, User
from contextopt.search.vectors.fill import Work, choose_models, work_through
from contextopt.spaces.models import Space
from tests import factories
from tests.dashboard.conftest import HTMX, squeezed

URL = "/settings/"


def test_members_and_keys_are_listed(teammate_client: Client, team: Team) -> None:
    factories.make_key(team, name="ci")
    html = teammate_client.get(URL).content.decode()
    assert "tom" in html
    assert "ci" in html
    assert "Create key" not in html


def test_the_team_gets_a_name_and_a_clock(owner_client: Client, team: Team) -> None:
    owner_client.post(f"{URL}team", {"name": "Platform", "time_zone": "Europe/Oslo", "date_order": "month"})
    team.refresh_from_db()
    assert (team.name, team.time_zone, team.date_order) == ("Platform", "Europe/Oslo", "month")
    assert '<option value="month" selected>' in owner_client.get(URL).content.decode()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 121),
        ("time_zone", "Mars/Olympus"),
        ("name", "a\x00"),
        ("date_order", "year"),
    ],
)
def test_a_team_that_cannot_be(field: str, value: str, owner_client: Client, team: Team) -> None:
    response = owner_client.post(f"{URL}team", {"name": "A", "time_zone": "UTC", field: value})
    assert response.status_code == 422
    assert f'id="id_{field}_error"' in response.content.decode()


def test_a_key_is_shown_once_and_works(owner_client: Client, team: Team) -> None:
    headers = {**HTMX, "HX-Target": "keys"}
    response = owner_client.post(f"{URL}keys", {"name": "ci", "scope": "write"}, headers=headers)
    html = response.content.decode()
    assert "<html" not in html and 'id="keys"' in html
    # The guided start goes on.
    assert 'id="start" aria-label="Getting started" hx-swap-oob="true"' in squeezed(html)
    secret = html.split('<pre id="secret">')[1].split("<")[0]
    assert response.headers["Cache-Control"] == "private, no-store"
    assert secret not in str(dict(owner_client.session)) + str(owner_client.cookies)
    key = find_key(secret)
    assert key is not None
    assert (key.team, key.scope, key.created_by) == (team, "write", "user:olga")
    assert secret not in owner_client.get(URL).content.decode()


def test_a_key_with_limits(owner_client: Client, team: Team) -> None:
    space = factories.make_space(team)
    data = {"name": "app", "scope": "read", "spaces": space.slug, "requests_per_minute": 60}
    headers = {**HTMX, "HX-Target": "keys"}
    html = owner_client.post(f"{URL}keys", {**data, "expires_at": "2998-01-31"}, headers=headers)
    key = ApiKey.objects.get()
    assert (key.space_ids, key.requests_per_minute) == ([space.pk], 60)
    assert key.expires_at is not None and key.expires_at.isoformat() == "2998-01-31T00:00:00+00:00"
    row = html.content.decode().split("<tbody>")[1].split("</tbody>")[0]
    assert "read, support" in row and "60/min" in row and "31 Jan 2998" in row


class TestRotating:
    HEADERS = MappingProxyType({**HTMX, "HX-Target": "keys"})

    def test_a_key_is_replaced_with_an_overlap(self, owner_client: Client, team: Team) -> None:
        key, old = factories.make_key(team, name="app")
        answer = owner_client.post(
            f"{URL}keys/{key.pk}/rotate", {"overlap_hours": 24}, headers=dict(self.HEADERS)
        )
        new = answer.content.decode().split('<pre id="secret">')[1].split("<")[0]
        assert answer.headers["Cache-Control"] == "private, no-store"
        assert find_key(old) is not None and find_key(new) is not None
        assert ApiKey.objects.get(pk=key.pk).expires_at is not None

    def test_at_once_the_old_one_shows_as_expired(self, owner_client: Client, team: Team) -> None:
        key, old = factories.make_key(team, name="app")
        address = f"{URL}keys/{key.pk}/rotate"
        html = owner_client.post(address, {"overlap_hours": 0}, headers=dict(self.HEADERS)).content.decode()
        assert find_key(old) is None
        assert '<span class="tag drop">expired</span>' in html
        again = owner_client.post(address, {"overlap_hours": 0}, headers=dict(self.HEADERS)).content.decode()
        assert "is revoked or has expired" in again

    def test_what_cannot_be(self, owner_client: Client, team: Team) -> None:
        key, _ = factories.make_key(team)
        address, headers = f"{URL}keys/{key.pk}/rotate", dict(self.HEADERS)
        assert owner_client.post(address, {"overlap_hours": 5}, headers=headers).status_code == 400
        assert owner_client.post(address, {"overlap_hours": 24}).status_code == 302
        assert ApiKey.objects.count() == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 121),
        ("scope", "root"),
        ("spaces", "nowhere"),
        ("requests_per_minute", "0"),
        ("expires_at", "2020-01-01"),
    ],
)
def test_a_key_that_cannot_be(field: str, value: str, owner_client: Client, team: Team) -> None:
    data, headers = {"name": "ci", "scope": "read", field: value}, {**HTMX, "HX-Target": "keys"}
    html = owner_client.post(f"{URL}keys", data, headers=headers).content.decode()
    assert f'_{field}_error" role="alert"' in html
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize(
    ("address", "data"),
    [
        ("keys", {"name": "ci", "scope": "write"}),
        ("invitations", {"name": "Nia", "role": "viewer", "days": 7}),
    ],
)
def test_what_a_reload_would_send_again_makes_no_secret(
    address: str, data: dict[str, object], owner_client: Client
) -> None:
    for _ in range(2):
        response = owner_client.post(f"{URL}{address}", data)
        assert (response.status_code, response.headers["Location"]) == (302, URL)
    assert not ApiKey.objects.exists() and not Invitation.objects.exists()
    assert "Nothing was created" in owner_client.get(URL).content.decode()


def test_a_revoked_key_stays_listed(owner_client: Client, team: Team) -> None:
    key, secret = factories.make_key(team)
    html = owner_client.post(f"{URL}keys/{key.pk}/revoke", follow=True).content.decode()
    assert find_key(secret) is None
    assert "revoked" in html


def test_the_demo_status_waits_and_ends(owner_client: Client, team: Team) -> None:
    headers = {**HTMX, "HX-Target": "demo"}
    waiting = owner_client.get("/demo/?polls=1", headers=headers)
    assert waiting.status_code == 200
    assert "every 2s" in waiting.content.decode()
    stuck = owner_client.get("/demo/?polls=60", headers=headers)
    assert (stuck.status_code, "taking too long" in stuck.content.decode()) == (286, True)
    Space.objects.filter(pk=factories.make_space(team).pk).update(is_demo=True)
    done = owner_client.get("/demo/?polls=2", headers=headers)
    assert (done.status_code, "Demo data loaded" in done.content.decode()) == (286, True)


def test_the_page_asks_as_often_for_twenty_keys_as_for_two(
    owner_client: Client, team: Team, django_assert_num_queries
) -> None:
    factories.make_space(team)
    for wanted in (2, 20):
        while ApiKey.objects.count() < wanted:
            data = KeyIn(name="ci", spaces=["support"])
            create_key(team=team, data=data, actor="test")
        # The frame's four, demo?, keys, members with users, invitations; models, fills and lines of
        # embedding; the guided start; the admins; time zones.
        with django_assert_num_queries(14):
            owner_client.get(URL)


def test_the_panel_of_embeddings_asks_until_all_is_done(owner_client: Client, team: Team) -> None:
    headers = {**HTMX, "HX-Target": "embeddings"}
    space = factories.make_space(team)
    factories.make_record(space)
    html = owner_client.get(URL).content.decode()
    assert "Nothing is embedded yet" in html
    assert "every 5s" in html
    choose_models()
    waiting = owner_client.get(URL, headers=headers)
    assert (waiting.status_code, "1 new text waiting" in waiting.content.decode()) == (200, True)
    work_through(seconds=10, index_seconds=None, work=Work())
    done = owner_client.get(URL, headers=headers)
    assert (done.status_code, "All texts are searchable" in done.content.decode()) == (286, True)
    assert "<html" not in done.content.decode()
    assert "every 5s" not in done.content.decode()


def test_a_keys_name_ends_where_the_database_does(owner_client: Client, team: Team) -> None:
    form = (
        owner_client.get("/settings/").content.decode().split('aria-label="New key"')[1].split("</form>")[0]
    )
    assert 'maxlength="120"' in form


def test_what_destroys_is_asked_first(owner_client: Client, team: Team, teammate: User) -> None:
    key = factories.make_key(team, name="<ci>")[0]
    space = factories.make_space(team)
    Space.objects.filter(pk=space.pk).update(is_demo=True)
    member = team.memberships.get(user=teammate)
    html = owner_client.get("/settings/").content.decode()
    for dialog, name, args, words in (
        (f"revoke-{key.pk}", "key_revoke", [key.pk], "Revoke the key “&lt;ci&gt;”?"),
        (f"remove-{member.pk}", "member_remove", [member.pk], "Remove tom from the team?"),
        ("demo-dialog", "demo_remove", [], f"This deletes everything in the spaces {space.name},"),
    ):
        asked = html.split(f'<dialog id="{dialog}"')[1].split("</dialog>")[0]
        assert words in asked
        assert f'data-open="{dialog}"' in html
        address = f'action="{reverse(f"dashboard:{name}", args=args)}"'
        assert html.count(address) == asked.count(address) == 1
