"""`POST /assemblies/{id}/replay`."""

from datetime import timedelta

import pytest

from contextopt.assemblies.models import Assembly, AssemblyPayload
from tests import factories
from tests.factories import NOW


@pytest.fixture
def made(space):
    for number in range(30):
        factories.make_record(space, title=f"Note {number}", date=NOW - timedelta(days=number))
    return factories.make_assembly(space, as_of=NOW)


def test_the_same_settings_give_the_same_context(api, made):
    again = api.post(f"/assemblies/{made.id}/replay", {}).json()
    assert again["same"]
    assert (again["sha256"], again["tokens"]) == (made.certificate.sha256, made.certificate.tokens)
    assert (again["added"], again["removed"], again["differences"]) == ([], [], [])
    assert again["context"]["text"] == made.text
    assert again["context"]["id"] is None
    assert "reason" not in again


@pytest.mark.django_db(transaction=True)
def test_other_settings_say_what_enters_and_leaves(api, made):
    again = api.post(
        f"/assemblies/{made.id}/replay", {"settings": {"window_days": 30, "max_records": 18}}
    ).json()
    assert not again["same"]
    assert (len(again["added"]), again["removed"]) == (3, [])
    assert (again["reconstructed"], again["looked_up"]) == (True, 15)
    assert again["settings"]["window_days"] == 30


def test_a_config_of_the_space(api, made, space):
    api.post("/spaces/support/configs", {"max_records": 4})
    again = api.post(f"/assemblies/{made.id}/replay", {"config": 2}).json()
    assert len(again["context"]["included"]) == 4
    assert len(again["removed"]) == 11


def test_without_what_was_given_it_says_why(api, made):
    AssemblyPayload.objects.update(givens=None)
    again = api.post(f"/assemblies/{made.id}/replay", {}).json()
    assert (again["reason"], again["context"], again["same"]) == ("logged_before", None, None)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"settings": {"window_days": 8}}, "settings.window_days"),
        ({"settings": {"tokens": 8}}, "settings.tokens"),
        ({"settings": {"context_tokens": None}}, "context_tokens"),
        ({"settings": {"encoding": "klingon"}}, "encoding"),
        ({"config": 0}, "config"),
        ({"context_tokens": 5}, "context_tokens"),
    ],
)
def test_a_bad_setting_is_named(api, made, body, field):
    response = api.post(f"/assemblies/{made.id}/replay", body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == field


def test_missing_things_are_not_found(api, made):
    assert api.post("/assemblies/999999/replay", {}).status_code == 404
    assert api.post(f"/assemblies/{made.id}/replay", {"config": 99}).status_code == 404


def test_a_phase_cannot_be_replayed(api, team):
    factories.make_filtering(team)
    response = api.post(f"/assemblies/{Assembly.objects.get().pk}/replay", {})
    assert response.status_code == 409


def test_an_explanation(api, made):
    dropped = api.get(f"/assemblies/{made.id}").json()["ledger"]["entries"][0]["id"]
    found = api.get(f"/assemblies/{made.id}/explain", expect=dropped).json()
    assert (found["step"], found["rank"], found["of"]) == ("included", 1, 15)
    assert found["record"]["id"] == dropped
    assert "over_tokens" not in found


def test_an_explanation_of_what_is_not_there(api, stranger, made):
    assert api.get(f"/assemblies/{made.id}/explain", expect="999999").status_code == 404
    assert api.get(f"/assemblies/{made.id}/explain", expect="nothing").status_code == 422
    assert api.get(f"/assemblies/{made.id}/explain").status_code == 422
    assert api.get("/assemblies/999999/explain", expect="1").status_code == 404
    assert stranger.get(f"/assemblies/{made.id}/explain", expect="1").status_code == 404


def test_another_teams_record_is_not_explained(api, made, other_team):
    hidden = factories.make_record(factories.make_space(other_team))
    assert api.get(f"/assemblies/{made.id}/explain", expect=hidden.pk).status_code == 404
