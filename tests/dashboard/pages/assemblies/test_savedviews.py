from itertools import count

import pytest
from django.test import Client
from django.urls import reverse

from contextopt.errors import Conflict
from contextopt.people.models import Role, Team, User
from contextopt.spaces.models import Space
from dashboard.kit.filters import VIEWS_MAX, SavedView, save_view
from tests import factories
from tests.dashboard.conftest import HTMX, log_in, squeezed
from tests.dashboard.pages.overview.test_figures import log_row
from tests.factories import NOW
from tests.queries import count_at_2_and_20

SAVE = reverse("dashboard:view_save")


def save(client: Client, **overrides: str) -> object:
    given = {"page": "assemblies", "name": "Slow ones", "query": "stage=4&before=1.2&nonsense=x"}
    return client.post(SAVE, {**given, **overrides})


def make_view(team: Team, owner: User | None = None, **overrides: str) -> SavedView:
    given = {"page": "assemblies", "name": "Mine", "query": "stage=4", "created_by": "test"}
    return save_view(team=team, owner=owner, **{**given, **overrides})


def test_a_view_keeps_the_filters_and_nothing_else(teammate_client: Client, teammate: User) -> None:
    response = save(teammate_client)
    view = SavedView.objects.get()
    assert (view.owner, view.query) == (teammate, "stage=4")
    assert response.headers["Location"] == "/assemblies/?stage=4"
    assert "Slow ones" in teammate_client.get("/assemblies/").content.decode()


def test_the_form_follows_the_filters(teammate_client: Client) -> None:
    """The form stands outside the list that a filter swaps."""
    now = '<input type="hidden" name="query" id="view-query" value="stage=4"'
    page = teammate_client.get("/assemblies/?stage=4").content.decode()
    assert page.count('id="view-query"') == page.count(f"{now}>") == 1
    listed = teammate_client.get("/assemblies/?stage=4", headers={**HTMX, "HX-Target": "assemblies"})
    assert f'{now} hx-swap-oob="true">' in listed.content.decode()


def test_a_refused_export_offers_the_filters_and_views(
    teammate_client: Client, teammate: User, team: Team
) -> None:
    make_view(team, teammate)
    refused = teammate_client.get("/assemblies.csv?stage=9&kind=phase")
    assert refused.status_code == 400
    page = squeezed(refused.content.decode())
    assert 'href="?stage=9" id="chip-1">Kind: <strong>Phase filter</strong>' in page
    assert '<a class="link" href="/assemblies/?stage=4">Mine</a>' in page
    assert 'role="alert"' in page


def test_saving_again_replaces(teammate_client: Client, team: Team) -> None:
    save(teammate_client)
    save(teammate_client, query="stage=3")
    assert SavedView.objects.get().query == "stage=3"


def test_an_overview_is_kept_with_its_range(owner_client: Client, space: Space) -> None:
    log_row(space, NOW)
    save(owner_client, page="overview", query="range=90d&space=support&kinds=apart", is_shared="on")
    assert SavedView.objects.get().query == "range=90d&space=support&kinds=apart"
    assert "Slow ones" in owner_client.get("/").content.decode()


def test_sharing_needs_an_editor(teammate_client: Client, owner_client: Client) -> None:
    assert save(teammate_client, is_shared="on").status_code == 403
    assert save(owner_client, is_shared="on").status_code == 302
    assert SavedView.objects.get().owner is None


@pytest.mark.parametrize("given", [{"name": ""}, {"name": "x" * 81}, {"page": "admin"}, {"name": "a\0b"}])
def test_what_makes_no_view_is_refused(given: dict[str, str], owner_client: Client) -> None:
    assert save(owner_client, **given).status_code == 302
    assert not SavedView.objects.exists()


def test_own_views_are_ones_own_and_the_teams_are_everybodys(
    teammate: User, owner_client: Client, teammate_client: Client, outsider_client: Client, team: Team
) -> None:
    make_view(team, teammate, name="Toms view")
    make_view(team, name="Our view")
    shown = [client.get("/assemblies/").content.decode() for client in (teammate_client, owner_client)]
    assert ["Toms view" in html for html in shown] == [True, False]
    assert ["Our view" in html for html in shown] == [True, True]
    assert "Our view" not in outsider_client.get("/assemblies/").content.decode()


def test_who_may_delete(team: Team, teammate: User, owner_client: Client, teammate_client: Client) -> None:
    own, shared = make_view(team, teammate), make_view(team, name="Ours")
    delete = {view: reverse("dashboard:view_delete", args=[view.pk]) for view in (own, shared)}
    assert owner_client.post(delete[own]).status_code == 404
    assert teammate_client.post(delete[shared]).status_code == 403
    assert teammate_client.post(delete[own]).status_code == 302
    assert owner_client.post(delete[shared]).status_code == 302
    assert not SavedView.objects.exists()


def test_outsiders_delete_nothing(team: Team, outsider_client: Client) -> None:
    view = make_view(team)
    assert outsider_client.post(reverse("dashboard:view_delete", args=[view.pk])).status_code == 404
    assert outsider_client.get(SAVE).status_code == 405


def test_there_is_an_end_to_views(team: Team, owner_client: Client) -> None:
    for number in range(VIEWS_MAX):
        make_view(team, name=f"View {number}")
    with pytest.raises(Conflict):
        make_view(team, name="One more")
    make_view(team, name="View 3", query="stage=2")
    response = owner_client.post(
        SAVE, {"page": "assemblies", "name": "More", "query": "", "is_shared": "on"}, follow=True
    )
    assert "Delete one first" in response.content.decode()


def test_the_list_costs_one_query_for_two_as_for_twenty(team: Team) -> None:
    client = log_in(factories.make_user("edda", team, Role.EDITOR))
    numbers = count(1)
    counts = count_at_2_and_20(
        lambda: client.get("/assemblies/"), lambda: make_view(team, name=f"View {next(numbers)}")
    )
    assert counts == [7, 7]
