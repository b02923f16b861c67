"""Sorting the list by a figure, and searching questions and contexts for words."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client

from contextopt.assemblies.models import Assembly
from contextopt.spaces.models import Space
from dashboard.pages.assemblies import filters as rows_module
from dashboard.pages.assemblies.filters import SORTED_ROWS, read_list
from dashboard.pages.overview.charts import CHARTS
from tests import factories
from tests.dashboard.conftest import html_of, squeezed
from tests.dashboard.pages.overview.test_figures import log_row
from tests.factories import NOW

LIST = "/assemblies/"


def ids_of(client: Client, query: str) -> list[int]:
    response = client.get(f"{LIST}?{query}")
    assert response.status_code == 200
    return [row.pk for row in response.context["page"].rows]


@pytest.fixture
def logged(space: Space) -> dict[str, int]:
    """Rows that each lead one order, in the order of their times, oldest first."""
    rows = {
        "saved": {"tokens_before": 9_000, "tokens_after": 1_000},
        "slowest": {"assembly_ms": 900.0},
        "dropped": {"records_filtered": 90, "over_record_limit": 86},
        "emptiest": {"tokens_after": 499, "tokens_available": 90_000},
        "fewest": {"records_included": 1, "over_record_limit": 9},
        "plain": {},
    }
    return {
        name: log_row(space, NOW + timedelta(minutes=minute), **numbers).pk
        for minute, (name, numbers) in enumerate(rows.items())
    }


@pytest.mark.parametrize("sort", ["saved", "slowest", "dropped", "emptiest", "fewest"])
def test_each_order_leads_with_its_figure(owner_client: Client, logged: dict[str, int], sort: str) -> None:
    assert ids_of(owner_client, f"sort={sort}")[0] == logged[sort]


def test_without_an_order_the_newest_come_first(owner_client: Client, logged: dict[str, int]) -> None:
    assert ids_of(owner_client, "") == sorted(logged.values(), reverse=True)


def test_an_order_that_does_not_exist_is_named(owner_client: Client, logged: dict[str, int]) -> None:
    html = owner_client.get(f"{LIST}?sort=best").content.decode()
    assert "Sort" in html.split('class="problem"')[1].split("</p>")[0]


@pytest.mark.parametrize("slug", CHARTS)
def test_the_overviews_points_ask_for_orders_that_exist(
    owner_client: Client, space: Space, slug: str
) -> None:
    row = log_row(space, NOW)
    assert ids_of(owner_client, CHARTS[slug].rows) == [row.pk]


def test_pages_of_an_order_lose_and_repeat_nothing(owner_client: Client, space: Space) -> None:
    for number in range(120):
        log_row(space, NOW - timedelta(minutes=number), assembly_ms=float(number % 7))
    seen, query = [], "sort=slowest"
    while query:
        html = owner_client.get(f"{LIST}?{query}").content.decode()
        seen += map(int, re.findall(r"data-row href=\"/assemblies/(\d+)/", html))
        found = re.search(r'href="\?([^"]*)">More<', squeezed(html))
        query = unescape(found[1]) if found else ""
    times = [Assembly.objects.get(pk=pk).assembly_ms for pk in seen]
    assert len(set(seen)) == 120
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("cursor", ["x", "-1", "99999999999999999999", "9" * 5_000, "²"])
def test_a_cursor_of_another_order_shows_some_page(
    owner_client: Client, logged: dict[str, int], cursor: str
) -> None:
    assert owner_client.get(LIST, {"sort": "saved", "before": cursor}).status_code == 200


def test_only_the_newest_rows_are_sorted_and_the_page_says_so(
    owner_client: Client, space: Space, monkeypatch
) -> None:
    assert SORTED_ROWS == 10_000
    monkeypatch.setattr(rows_module, "SORTED_ROWS", 3)
    slow = log_row(space, NOW - timedelta(days=1), assembly_ms=900.0)
    for minute in range(3):
        log_row(space, NOW + timedelta(minutes=minute))
    listed = read_list(Assembly.objects.of(space.team), sort="slowest", words="", cursor="")
    assert slow not in listed.page.rows
    assert listed.sorted_rows == 3
    assert "Sorted within the newest 3 matching assemblies." in html_of(owner_client, f"{LIST}?sort=slowest")


def test_a_header_sorts_and_sorts_back(owner_client: Client, logged: dict[str, int]) -> None:
    html = html_of(owner_client, f"{LIST}?stage=4")
    assert 'href="?stage=4&amp;sort=saved"' in html
    html = html_of(owner_client, f"{LIST}?stage=4&sort=saved")
    assert 'aria-sort="descending"><a href="?stage=4">Saved' in html
    assert html.count("aria-sort") == 1


def test_a_sorted_list_cannot_be_followed(owner_client: Client, logged: dict[str, int]) -> None:
    html = html_of(owner_client, f"{LIST}?sort=saved&live=on")
    assert 'hx-trigger="every' not in html
    assert "Follow live" not in html


def test_all_kinds_of_agents_are_one_choice(
    owner_client: Client, logged: dict[str, int], space: Space
) -> None:
    agents = [log_row(space, NOW, kind=kind, stage=None).pk for kind in ("phase", "retry", "handoff")]
    assert ids_of(owner_client, "kind=agents") == agents[::-1]


@pytest.fixture
def contexts(space: Space) -> dict[str, int]:
    """Assemblies of two spaces: one has a word in its context, another in its question."""
    factories.make_record(space, title="Zebra crossing", notes="Paint it white.")
    other = factories.make_space(space.team, "other")
    factories.make_record(other, title="Plain road")
    return {
        "context": factories.make_assembly(space, stage=4).id,
        "question": factories.make_assembly(other, stage=5, query="Where is the ZEBRA kept?").id,
        "neither": factories.make_assembly(other, stage=4).id,
    }


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("zebra", ["question", "context"]),
        ("zebra kept", ["question"]),
        ("WHITE crossing", ["context"]),
        ("zebra unicorn", []),
        ("%", []),
        ("_", []),
    ],
)
def test_all_words_are_found_in_question_or_context(
    owner_client: Client, contexts: dict[str, int], words: str, names: list[str]
) -> None:
    response = owner_client.get(LIST, {"words": words})
    assert [row.pk for row in response.context["page"].rows] == [contexts[name] for name in names]


def test_words_of_another_team_are_not_found(contexts: dict[str, int], outsider_client: Client) -> None:
    response = outsider_client.get(LIST, {"words": "zebra"})
    assert list(response.context["page"].rows) == []


def test_a_search_goes_on_where_it_stopped(owner_client: Client, contexts, monkeypatch) -> None:
    monkeypatch.setattr(rows_module, "SEARCHED_ROWS", 1)
    html = html_of(owner_client, f"{LIST}?words=zebra")
    assert "None of the" in html
    seen = []
    while found := re.search(r'href="\?([^"]*)">Search older<', squeezed(html)):
        html = html_of(owner_client, f"{LIST}?{unescape(found[1])}")
        seen += re.findall(r"data-row href=\"/assemblies/(\d+)/", html)
        assert "Searched back to" in html or "Search older" not in html
    assert list(map(int, seen)) == [contexts["question"], contexts["context"]]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_exports_do_not_search_for_words(owner_client: Client, contexts, kind: str) -> None:
    response = owner_client.get(f"/assemblies.{kind}?words=zebra")
    assert response.status_code == 400
    assert "Exports don&#x27;t support word search." in response.content.decode()
    assert "Export all" not in html_of(owner_client, f"{LIST}?words=zebra")


def test_the_same_queries_for_two_rows_as_for_twenty(
    owner_client: Client, space: Space, django_assert_num_queries
) -> None:
    for rows in (2, 18):
        for minute in range(rows):
            log_row(space, NOW - timedelta(minutes=minute))
        with django_assert_num_queries(11):
            # the frame's four, spaces, page, is there more to sort, questions, votes, sources, saved views
            html_of(owner_client, f"{LIST}?sort=saved")
        with django_assert_num_queries(8):
            # the frame's four, spaces, rows to search, those with the words, saved views
            html_of(owner_client, f"{LIST}?words=unicorn")
