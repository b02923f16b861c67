"""The command palette's lines."""

import re
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Role, Team
from contextopt.spaces.models import Space
from tests import factories
from tests.dashboard.conftest import log_in
from tests.dashboard.pages.overview.test_figures import log_row
from tests.factories import NOW


def labels_of(client: Client, typed: str = "") -> list[str]:
    response = client.get(reverse("dashboard:palette"), {"q": typed})
    assert response.status_code == 200
    return re.findall(r'class="name">([^<]*)<', response.content.decode())


@pytest.fixture
def row(space: Space) -> Assembly:
    return log_row(space, NOW, sha256="0123456789abcdef" * 4)


def test_without_words_pages_and_actions(owner_client: Client, team: Team) -> None:
    labels = labels_of(owner_client)
    assert {"Overview", "Assemblies", "Review", "New space", "New API key", "Theme: dark"} <= set(labels)
    assert not any("Search records" in label for label in labels)


def test_a_viewer_is_offered_only_what_the_role_allows(team: Team) -> None:
    labels = labels_of(log_in(factories.make_user("vera", team, Role.VIEWER)))
    assert not {"New space", "New task", "New API key", "Change log"} & set(labels)
    assert "Overview" in labels


def test_all_words_must_occur(owner_client: Client, team: Team) -> None:
    assert "Theme: dark" in labels_of(owner_client, "dark theme")
    assert "Theme: light" not in labels_of(owner_client, "dark theme")


def test_spaces_and_records_by_their_names(owner_client: Client, space: Space) -> None:
    factories.make_record(space, title="Zebra <b>crossing</b>")
    assert "Support notes" in labels_of(owner_client, "SUPPORT")
    assert "Support notes: settings" in labels_of(owner_client, "support")
    assert "Zebra &lt;b&gt;crossing&lt;/b&gt;" in labels_of(owner_client, "zebra")
    assert labels_of(owner_client, "%") == ["Search records and memories for “%”"]


def test_a_search_takes_the_words_along(owner_client: Client, space: Space) -> None:
    factories.make_record(space, title="Zebra crossing")
    html = owner_client.get(reverse("dashboard:palette"), {"q": "zebra & co"}).content.decode()
    address = unescape(re.findall(r'href="(/search/[^"]*)"', html)[0])
    assert 'value="zebra &amp; co"' in owner_client.get(address).content.decode()


def test_deleted_records_are_not_offered(owner_client: Client, space: Space) -> None:
    factories.make_record(space, title="Zebra crossing", deleted_at=NOW)
    assert "Zebra crossing" not in labels_of(owner_client, "zebra")


@pytest.mark.parametrize("typed", ["{pk}", "012345", "0123456789ABCDEF"])
def test_assemblies_by_number_or_hash(owner_client: Client, row: Assembly, typed: str) -> None:
    assert f"Assembly {row.pk}" in labels_of(owner_client, typed.format(pk=row.pk))


def test_a_short_word_is_no_hash(owner_client: Client, row: Assembly) -> None:
    assert f"Assembly {row.pk}" not in labels_of(owner_client, "0123f"[:4] + "a")


def test_another_teams_things_are_not_offered(outsider_client: Client, row: Assembly, space: Space) -> None:
    factories.make_record(space, title="Zebra crossing")
    for typed in ("zebra", "support", str(row.pk), "0123456789"):
        labels = labels_of(outsider_client, typed)
        assert "Zebra crossing" not in labels
        assert "Support notes" not in labels
        assert f"Assembly {row.pk}" not in labels


@pytest.mark.parametrize("typed", ["9" * 40, "\x00", "x" * 5_000, "'; --", "²"])
def test_any_text_is_fine(owner_client: Client, row: Assembly, typed: str) -> None:
    labels_of(owner_client, typed)


def test_the_same_queries_for_two_records_as_for_twenty(
    owner_client: Client, space: Space, row: Assembly, django_assert_num_queries
) -> None:
    for count in (2, 18):
        for number in range(count):
            factories.make_record(space, title=f"Note 123456 {count} {number}")
        with django_assert_num_queries(6):
            # session, user, memberships, assemblies, spaces, records
            labels_of(owner_client, "123456")
