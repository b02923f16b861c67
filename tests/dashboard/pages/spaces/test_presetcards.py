"""The presets on the page Context settings."""

from datetime import timedelta

import pytest
from django.test import Client

from contextopt.spaces.configs import publish_settings
from contextopt.spaces.models import Space
from contextopt.spaces.presets import LEAN
from tests.dashboard.conftest import html_of, squeezed
from tests.factories import NOW, make_assembly, make_record
from tests.queries import count_at_2_and_20

pytestmark = pytest.mark.usefixtures("noon")
PAGE = "/spaces/support/settings/"
URL = f"{PAGE}presets/lean/"
USE = f"{URL}use"


@pytest.fixture
def filled(space: Space) -> Space:
    for number in range(24):
        make_record(space, title=f"Note {number} on part {number}", date=NOW - timedelta(hours=number))
    return space


def card(client: Client) -> str:
    response = client.get(URL, headers={"HX-Request": "true"})
    assert response.status_code == 200
    return squeezed(response.content.decode())


def test_the_effect_is_that_of_the_last_requests(editor_client: Client, filled: Space) -> None:
    for _ in range(3):
        sent = make_assembly(filled)
    html = card(editor_client)
    assert f"{sent.stats.tokens_used:,} →" in html
    assert "<dd>20.0 → " in html
    assert "The last 3 requests without a question, replayed." in html
    assert "more →" in html
    assert filled.configs.count() == 1


def test_a_space_that_sends_little_already(editor_client: Client, filled: Space) -> None:
    publish_settings(space=filled, created_by="test", max_records=2)
    make_assembly(filled)
    assert "already send as little as Lean" in card(editor_client)


def test_nothing_to_replay(editor_client: Client, filled: Space) -> None:
    make_assembly(filled, query="note")
    html = card(editor_client)
    assert "no requests without a question yet" in html
    assert 'value="try"' not in html
    assert 'value="draft"' in html
    response = editor_client.post(USE, {"action": "try"}, follow=True)
    assert "no requests without a question yet to try it on" in response.content.decode()


def test_the_effect_is_shown_without_a_script_too(editor_client: Client, filled: Space) -> None:
    make_assembly(filled)
    plain = html_of(editor_client, PAGE)
    assert 'href="?preset=lean#preset-lean"' in plain
    assert editor_client.get(URL).headers["Location"] == f"{PAGE}?preset=lean#preset-lean"
    assert "The last 1 request without a question, replayed." in squeezed(
        html_of(editor_client, f"{PAGE}?preset=lean")
    )


def test_it_is_tried_on_the_last_request(editor_client: Client, filled: Space) -> None:
    tried = make_assembly(filled).id
    make_assembly(filled, query="note")
    response = editor_client.post(USE, {"action": "try"})
    what_if = f"/assemblies/{tried}/what-if/?config=1&record_budget=adaptive"
    assert response.headers["Location"] == what_if
    assert "Record budget: <del>fixed</del><ins>adaptive</ins>" in squeezed(html_of(editor_client, what_if))


def test_it_is_saved_as_a_draft(editor_client: Client, filled: Space) -> None:
    response = editor_client.post(USE, {"action": "draft"})
    assert response.headers["Location"] == f"{PAGE}#version-2"
    draft = filled.configs.get(is_draft=True)
    assert LEAN.is_in(draft.settings)
    assert draft.note == "Preset Lean."


def test_it_is_published_and_then_active(editor_client: Client, filled: Space) -> None:
    html = editor_client.post(USE, {"action": "publish"}, follow=True).content.decode()
    assert "Version 2 of the settings published." in html
    assert "The active settings have the values of Lean." in html
    assert (
        'name="action" value="publish"'
        not in html.partition('id="preset-lean"')[2].partition("</section>")[0]
    )
    again = editor_client.post(USE, {"action": "publish"}, follow=True).content.decode()
    assert "Lean is already active." in again
    assert filled.configs.count() == 2


def test_viewers_see_the_effect_alone(teammate_client: Client, filled: Space) -> None:
    make_assembly(filled)
    html = card(teammate_client)
    assert "replayed." in html
    assert "<button" not in html
    assert teammate_client.post(USE, {"action": "publish"}).status_code == 403
    assert filled.configs.count() == 1


def test_outsiders_and_visitors(outsider_client: Client, client: Client, space: Space) -> None:
    assert outsider_client.get(URL).status_code == 404
    assert outsider_client.post(USE, {"action": "publish"}).status_code == 404
    assert client.get(URL).status_code == 302


def test_an_unknown_preset(editor_client: Client, space: Space) -> None:
    assert editor_client.get(f"{PAGE}presets/heavy/").status_code == 404
    assert editor_client.post(f"{PAGE}presets/heavy/use", {"action": "draft"}).status_code == 404


def test_the_settings_page_asks_the_same_at_2_and_20_requests(editor_client: Client, filled: Space) -> None:
    def show() -> object:
        return editor_client.get(PAGE)

    counts = count_at_2_and_20(show, lambda: make_assembly(filled))
    assert counts[0] == counts[1]
