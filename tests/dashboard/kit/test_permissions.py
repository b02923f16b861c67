"""Log-in, teams, and pages that don't exist."""

import re

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from contextopt.people.models import DEFAULT_TEAM, ApiKey, Membership, Role, Team, User
from contextopt.spaces.models import Space
from tests import factories
from tests.dashboard.conftest import HTMX, log_in


@pytest.mark.parametrize(
    "url", ["/healthz", "/accounts/login/", "/api/docs", "/api/openapi.json", "/admin/login/"]
)
def test_head_where_nobody_logs_in(url: str, client: Client, db: None) -> None:
    head = client.head(url)
    assert (head.status_code, head.content) == (200, b"")


def test_where_get_is_allowed_so_is_head(owner_client: Client) -> None:
    response = owner_client.delete("/spaces/")
    assert (response.status_code, response.headers["Allow"]) == (405, "GET, HEAD")


def test_an_expired_session_reloads_instead_of_swapping_the_login_page_in(db: None) -> None:
    response = Client().get(reverse("dashboard:overview"), headers=HTMX)
    assert response.headers["HX-Refresh"] == "true"


def test_a_user_without_a_team_is_told_so(db: None) -> None:
    response = log_in(factories.make_user("lonely")).get(reverse("dashboard:overview"))
    assert response.status_code == 403
    html = response.content.decode()
    assert "You are not in a team yet" in html
    assert f'action="{reverse("logout")}"' in html
    assert f'href="{reverse("dashboard:overview")}"' not in html


def test_pages_show_the_chosen_team(owner: User, owner_client: Client, other_team: Team) -> None:
    Membership.objects.create(team=other_team, user=owner, role=Role.VIEWER)
    factories.make_space(other_team, "theirs", name="Their space")
    response = owner_client.post(reverse("dashboard:switch_team"), {"team": other_team.pk}, follow=True)
    assert response.status_code == 200
    assert "Their space" in owner_client.get(reverse("dashboard:spaces")).content.decode()


@pytest.mark.parametrize("team_id", ["", "x", "999999"])
def test_a_team_of_others_cannot_be_chosen(team_id: str, owner_client: Client) -> None:
    assert owner_client.post(reverse("dashboard:switch_team"), {"team": team_id}).status_code == 404


def test_login_names_what_is_wrong(owner: User) -> None:
    response = Client().post(reverse("login"), {"username": "olga", "password": "wrong"})
    html = response.content.decode()
    assert "Wrong username or password" in html
    assert 'autocomplete="current-password" required autofocus>' in html
    assert html.count("autofocus") == 1


def test_login_leads_to_the_overview_and_logout_back(owner: User) -> None:
    client = Client()
    response = client.post(reverse("login"), {"username": "olga", "password": "correct horse"})
    assert response.headers["Location"] == reverse("dashboard:overview")
    assert client.post(reverse("logout")).headers["Location"] == reverse("login")


def test_what_does_not_exist_is_a_404_page(owner_client: Client, space: Space) -> None:
    for url in ("/nowhere/", f"/spaces/{space.slug}/records/{2**70}/", f"/assemblies/{2**70}/"):
        response = owner_client.get(url)
        assert response.status_code == 404
        assert "Not found" in response.content.decode()


def test_a_member_of_several_teams_may_look_in_another(
    owner: User, owner_client: Client, team: Team, other_team: Team
) -> None:
    words = f"Your current team is {team.name}."
    assert words not in owner_client.get("/nowhere/").content.decode()
    Membership.objects.create(team=other_team, user=owner, role=Role.VIEWER)
    space = factories.make_space(other_team, "theirs")
    html = owner_client.get(f"/spaces/{space.slug}/").content.decode()
    assert "Not found" in html and words in html


@pytest.mark.parametrize("page", ["overview", "spaces", "search", "chat", "tasks", "repositories"])
def test_commands_name_every_team_but_the_default_one(page: str, owner_client: Client, team: Team) -> None:
    address = reverse(f"dashboard:{page}")
    assert f" --team {team.slug}" in unfilled(owner_client.get(address))
    Team.objects.filter(pk=team.pk).update(slug=DEFAULT_TEAM)
    html = unfilled(owner_client.get(address))
    assert "manage.py" in html and "--team" not in html


def unfilled(response: HttpResponse) -> str:
    """Return the page without the marks around what was filled in."""
    return re.sub(r"</?span[^>]*>", "", response.content.decode())


def test_keys_of_others_stay(outsider_client: Client, team: Team) -> None:
    key = factories.make_key(team)[0]
    outsider_client.post(reverse("dashboard:key_revoke", args=[key.pk]))
    assert ApiKey.objects.get(pk=key.pk).revoked_at is None
