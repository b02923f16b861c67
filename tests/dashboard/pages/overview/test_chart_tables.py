from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from contextopt.people.models import Team
from contextopt.spaces.models import Space
from dashboard.pages.overview.charts import CHARTS
from tests.dashboard.conftest import HTMX, html_of
from tests.dashboard.pages.overview.test_figures import log_row
from tests.dashboard.pages.overview.test_overview import make_phase_row
from tests.factories import NOW

pytestmark = pytest.mark.usefixtures("noon")


@pytest.mark.parametrize("name", ["overview_csv", "overview_table"])
def test_a_chart_that_is_not_there(name: str, owner_client: Client, team: Team) -> None:
    assert owner_client.get(reverse(f"dashboard:{name}", args=["magic"])).status_code == 404


def test_the_page_has_no_table_of_a_chart(owner_client: Client, logged: Space) -> None:
    html = html_of(owner_client, "/?range=7d&space=support")
    assert "List</a>" not in html
    for slug in CHARTS:
        assert f'data-table="/overview/{slug}/?range=7d&amp;space=support"' in html


@pytest.mark.parametrize("slug", CHARTS)
def test_a_table_has_a_row_for_each_bucket(slug: str, owner_client: Client, logged: Space) -> None:
    response = owner_client.get(f"/overview/{slug}/?range=7d&space=support", headers=HTMX)
    html = response.content.decode()
    assert "<html" not in html
    assert "HX-Request" in response.headers["Vary"]
    heads = [f'<th scope="col" class="n">{column.name}</th>' for column in CHARTS[slug].columns]
    assert all(head in html for head in heads)
    assert html.count('<th scope="row">') == 7
    assert html.count("so far") == 1
    link = html.rsplit('<a class="link" href="', 1)[1].split('"')[0].replace("&amp;", "&")
    assert "space=support" in link
    assert html_of(owner_client, link).count('<th scope="row"><a') == 1


def test_a_table_has_a_page_of_its_own(owner_client: Client, logged: Space) -> None:
    html = html_of(owner_client, "/overview/time/?range=7d&stage=4")
    assert "<h1>Assembly time</h1>" in html
    assert 'href="/?range=7d&amp;stage=4"' in html
    assert 'href="/overview/time.csv?range=7d&amp;stage=4"' in html
    assert "compared with" not in html


def test_a_table_tells_kinds_apart_with_their_times(owner_client: Client, logged: Space) -> None:
    make_phase_row(logged.team, NOW - timedelta(minutes=1))
    html = html_of(owner_client, "/overview/time/?kinds=apart")
    last = html.split('<th scope="row">')[-1]
    assert "p95 ms, phase" in html
    assert last.count('<td class="n">–</td>') == 0


def test_a_table_costs_the_same_queries_for_two_assemblies_as_for_twenty(
    owner_client: Client, space: Space, django_assert_num_queries
) -> None:
    for from_log in (1, 0):
        log_row(space, NOW - timedelta(minutes=20))
        log_row(space, NOW - timedelta(minutes=20))
        with django_assert_num_queries(6 + from_log):
            # session, user, memberships with teams, spaces, prices, figures of the period; below 20
            # assemblies also their percentiles from the log
            owner_client.get("/overview/time/", headers=HTMX)
        for minutes in range(18):
            log_row(space, NOW - timedelta(minutes=minutes))
