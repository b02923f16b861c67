"""The error pages."""

import pytest
from django.test import Client

from contextopt.people.models import Team, User
from tests.dashboard.conftest import log_in


@pytest.fixture
def strict_client(owner: User) -> Client:
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner)
    return client


def test_a_form_without_its_token_is_explained(strict_client: Client, team: Team) -> None:
    response = strict_client.post("/spaces/new", {"name": "Late", "slug": "late"})
    assert response.status_code == 403
    assert "This form has expired" in response.content.decode()
    assert not team.spaces.exists()


def test_a_role_that_does_not_suffice_says_who_can_change_it(teammate: User) -> None:
    response = log_in(teammate).get("/settings/audit/")
    assert response.status_code == 403
    assert "A team admin can change your role" in response.content.decode()


def test_a_wrong_address_keeps_the_navigation(owner: User, team: Team) -> None:
    response = log_in(owner).get("/no-such-page/")
    assert response.status_code == 404
    assert 'aria-label="Main"' in response.content.decode()
    assert team.name in response.content.decode()


def test_a_wrong_address_shows_a_stranger_no_navigation(client: Client) -> None:
    response = client.get("/no-such-page/")
    assert response.status_code == 404
    assert 'aria-label="Main"' not in response.content.decode()


def test_a_wrong_address_without_a_team(db: None) -> None:
    response = log_in(User.objects.create_user("nina")).get("/no-such-page/")
    assert response.status_code == 404
    assert 'aria-label="Main"' not in response.content.decode()


@pytest.mark.parametrize("address", ["/demo/remove", "/accounts/logout/"])
def test_an_address_that_takes_no_visits_says_so_and_keeps_the_navigation(address: str, owner: User) -> None:
    response = log_in(owner).get(address)
    assert response.status_code == 405
    assert "POST" in response.headers["Allow"]
    html = response.content.decode()
    assert "it cannot be opened" in html
    assert 'aria-label="Main"' in html


def test_the_api_refuses_a_method_in_its_own_words(client: Client, db: None) -> None:
    response = client.put("/api/v1/assemblies")
    assert response.status_code == 405
    assert "html" not in response.headers["Content-Type"]
