"""The admin's menu: its tables by capability, the internal ones only on request."""

from collections import Counter

import pytest
from django.contrib import admin
from django.test import Client

from contextopt.adminsite import GROUPS, INTERNAL
from contextopt.people.models import Team, User
from tests import factories


@pytest.fixture
def client(team: Team) -> Client:
    client = Client()
    client.force_login(factories.make_user("root", team, is_staff=True, is_superuser=True))
    return client


def html_of(client: Client, address: str = "/admin/") -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def test_every_table_has_one_place() -> None:
    placed = Counter(label for group in (*GROUPS, INTERNAL) for label, _ in group.tables)
    assert set(placed) == {model._meta.label_lower for model in admin.site._registry}
    assert set(placed.values()) == {1}


def test_configuration_comes_first(client: Client) -> None:
    html = html_of(client).split('class="capabilities"')[1]
    places = [html.index(f">{group.title}</h2>") for group in GROUPS]
    assert places == sorted(places)
    assert GROUPS[0].title == "Configuration"


def test_internal_tables_are_shown_only_to_who_asks(client: Client) -> None:
    address = "/admin/contextopt/throttle/"
    assert address not in html_of(client)
    assert address in html_of(client, "/admin/?internal=yes")
    # The choice holds on other pages, until it is taken back.
    assert address in html_of(client, "/admin/contextopt/space/")
    assert address not in html_of(client, "/admin/?internal=no")
    # The page itself can always be opened by its address.
    assert client.get(address).status_code == 200


def test_tables_without_permission_are_not_listed(team: Team) -> None:
    user: User = factories.make_user("nia", team, is_staff=True)
    client = Client()
    client.force_login(user)
    html = html_of(client)
    assert "/admin/contextopt/space/" not in html
    assert ">Configuration</h2>" not in html
