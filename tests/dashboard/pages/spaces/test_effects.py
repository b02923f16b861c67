"""The effect of drafted settings on a space's last requests."""

from datetime import timedelta

import pytest
from django.test import Client

from contextopt.assemblies.models import Assembly
from contextopt.spaces.models import Space
from dashboard.pages.spaces.effects import REQUESTS_TRIED, read_effects
from dashboard.pages.spaces.forms import ConfigForm
from tests import factories
from tests.dashboard.conftest import squeezed
from tests.factories import NOW

pytestmark = pytest.mark.usefixtures("noon")


@pytest.fixture
def filled(space: Space) -> Space:
    for number in range(8):
        factories.make_record(space, title=f"Note {number}", date=NOW - timedelta(days=number))
    return space


def effect_of(client: Client, space: Space, **changes: object) -> str:
    settings = {**ConfigForm.initial_of(space.configs.active().get()), **changes}
    given = {name: value for name, value in settings.items() if value is not None}
    response = client.get(f"/spaces/{space.slug}/effect/", given, headers={"HX-Request": "true"})
    assert response.status_code == 200
    return response.content.decode()


def test_a_draft_is_tried_and_nothing_is_logged(filled: Space) -> None:
    factories.make_assembly(filled, stage=4)
    [effect] = read_effects(filled, {"max_records": 3}, "test").rows
    assert (effect.records_before, effect.records_after) == (8, 3)
    assert effect.tokens_after < effect.tokens_before
    assert Assembly.objects.count() == 1
    assert filled.configs.active().get().settings.max_records == 20


def test_each_question_once_newest_first(filled: Space) -> None:
    for query in ("one", "two", "one", "", ""):
        factories.make_assembly(filled, stage=5 if query else 4, query=query)
    rows = read_effects(filled, {}, "test").rows
    assert [row.question for row in rows] == ["", "one", "two"]
    for number in range(REQUESTS_TRIED):
        factories.make_assembly(filled, stage=5, query=f"more {number}")
    assert len(read_effects(filled, {}, "test").rows) == REQUESTS_TRIED


def test_the_page_shows_both(owner_client: Client, filled: Space) -> None:
    factories.make_assembly(filled, stage=4)
    html = effect_of(owner_client, filled, max_records=3)
    assert '<td class="n hide-small">8</td><td class="n hide-small"><strong>3</strong></td>' in squeezed(html)
    assert "without a question" in html


def test_a_draft_that_cannot_assemble_says_so(owner_client: Client, filled: Space) -> None:
    for query in ("one", "two"):
        factories.make_assembly(filled, stage=5, query=query, system_tokens=2_500)
    html = effect_of(owner_client, filled, total_tokens=1_500)
    assert html.count('class="problem"') == 1
    assert "<table" not in html
    factories.make_assembly(filled, stage=4, system_tokens=0, history_tokens=0)
    html = effect_of(owner_client, filled, total_tokens=1_500)
    assert html.count('class="bad"') == 2


def test_a_wrong_field_is_corrected_first(owner_client: Client, filled: Space) -> None:
    factories.make_assembly(filled, stage=4)
    assert "Correct the fields to see the effect" in effect_of(owner_client, filled, max_records=0)


def test_readers_change_nothing_and_see_no_effect(
    owner_client: Client, teammate_client: Client, filled: Space
) -> None:
    address = f"/spaces/{filled.slug}/settings/"
    assert 'id="effect"' in owner_client.get(address).content.decode()
    assert 'id="effect"' not in teammate_client.get(address).content.decode()


def test_a_space_without_requests_says_so(owner_client: Client, filled: Space) -> None:
    assert "no requests yet" in effect_of(owner_client, filled)
