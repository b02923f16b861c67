"""The filter by space, for a team with more spaces than a select offers, and wrong filters of exports."""

from collections.abc import Callable

import pytest
from django.http import QueryDict
from django.test import Client

from contextopt.people.models import Team
from contextopt.spaces.models import Space
from dashboard.kit.filters import SPACES_OFFERED, SpaceFilterForm
from dashboard.pages.agents.charts import PHASE_CHARTS
from dashboard.pages.answers.charts import VOTE_CHARTS
from dashboard.pages.traffic.charts import TRAFFIC_CHARTS
from tests.dashboard.conftest import html_of
from tests.dashboard.pages.traffic.test_traffic import make
from tests.factories import make_assembly, make_space

PAGES = ("/", "/feedback/", "/feedback/votes/", "/traffic/", "/traffic/prompts/", "/assemblies/", "/review/")


@pytest.fixture
def crowd(team: Team) -> Team:
    """The team with as many spaces as are offered."""
    names = [f"s{number:03}" for number in range(SPACES_OFFERED)]
    Space.objects.bulk_create(Space(team=team, slug=name, name=name) for name in names)
    return team


@pytest.fixture
def last(crowd: Team) -> Space:
    return make_space(crowd, "last", name="the last by name")


def form_of(team: Team, query: str = "") -> SpaceFilterForm:
    form = SpaceFilterForm(QueryDict(query), team=team)
    form.is_valid()
    return form


def test_the_first_spaces_by_name_are_offered(last: Space) -> None:
    assert list(form_of(last.team).spaces) == [f"s{number:03}" for number in range(SPACES_OFFERED)]


def test_a_space_that_is_not_offered_can_be_chosen(last: Space, django_assert_num_queries: Callable) -> None:
    with django_assert_num_queries(1):
        form = form_of(last.team, "space=last")
    assert not form.errors
    assert form.space_id == last.pk
    assert list(form.spaces)[-1] == "last"


def test_spaces_of_the_demo_are_offered(last: Space) -> None:
    Space.objects.filter(pk=last.pk).update(is_demo=True)
    assert "last" in form_of(last.team).spaces


@pytest.mark.parametrize("query", ["space=nope", "space=a%00b", "space="])
def test_no_other_space_can_be_chosen(last: Space, query: str) -> None:
    form = form_of(last.team, query)
    assert form.space_id is None
    assert bool(form.errors) == (query != "space=")


def test_spaces_of_other_teams_cannot_be_chosen(team: Team, other_team: Team) -> None:
    make_space(other_team, "theirs")
    assert form_of(team, "space=theirs").errors


@pytest.mark.parametrize("page", PAGES)
def test_pages_filter_by_a_space_that_is_not_offered(page: str, last: Space, owner_client: Client) -> None:
    make_assembly(last)
    assert 'value="last" selected' in html_of(owner_client, page, space="last")


def test_traffic_names_spaces_that_are_not_offered(last: Space, owner_client: Client) -> None:
    make(last)
    html = html_of(owner_client, "/traffic/")
    assert "the last by name" in html.split('id="spaces-title"')[1]


@pytest.mark.parametrize(
    "address",
    [
        "/overview/saved.csv?space=gone",
        "/overview/saved/?space=gone",
        f"/traffic/charts/{next(iter(TRAFFIC_CHARTS))}.csv?space=gone",
        f"/feedback/charts/{next(iter(VOTE_CHARTS))}.csv?space=gone",
        f"/phases/charts/{next(iter(PHASE_CHARTS))}.csv?range=gone",
    ],
)
def test_an_export_with_a_wrong_filter_is_refused(address: str, owner_client: Client) -> None:
    """Otherwise a saved link to a space that was deleted would export all spaces."""
    assert owner_client.get(address.partition("?")[0]).status_code == 200
    response = owner_client.get(address)
    assert response.status_code == 404
    assert "gone is not one of the available choices" in response.content.decode()
