import pytest

from contextopt.agents.phaselinks import PhaseLink
from contextopt.engine.agents.phases import DEFAULT_LINKS
from tests import factories
from tests.contextopt.api.conftest import fields_of

LINKS = "/phases/building/links"


def test_the_table(api, team, django_assert_num_queries):
    factories.make_profile(team, "security", budget_tokens=10, fields=["docs"])
    factories.make_link(team, "building", receives="analysis")
    api.get("/me")
    with django_assert_num_queries(3):  # the key, the team's phases, its links
        items = api.get("/phase-links").json()["items"]
    assert [item["phase"] for item in items] == [*DEFAULT_LINKS, "security"]
    by_phase = {item["phase"]: item for item in items}
    assert by_phase["building"] == {
        "phase": "building", "profile": "building", "receives": "analysis", "version": 1,
    }  # fmt: skip
    assert by_phase["planning"]["receives"] == "analysis"
    assert {by_phase[name]["receives"] for name in ("diagnosis", "reviewing")} == {"design"}
    assert {by_phase[name]["receives"] for name in ("confidence", "completing", "security")} == {None}
    profiles = [by_phase[name]["profile"] for name in ("analysis", "design", "implementation")]
    assert profiles == ["planning", "planning", "building"]


def test_publish_list_read_and_activate(api):
    first = api.post(LINKS, {"receives": None, "note": "alone"})
    assert first.status_code == 201
    assert first["Location"] == "/api/v1/phases/building/links/1"
    second = api.post(LINKS, {"profile": "planning"}).json()
    assert (second["version"], second["profile"], second["receives"]) == (2, "planning", None)
    assert second["created_by"] == "key:admin-key"
    items = api.get(LINKS).json()["items"]
    assert [(item["version"], item["is_active"]) for item in items] == [(2, True), (1, False)]
    assert api.get(f"{LINKS}/1").json() == items[1]
    assert api.post(f"{LINKS}/1/activate").json()["is_active"]
    assert PhaseLink.objects.get(is_active=True).version == 1


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        ({"profile": "dreaming"}, {"profile"}),
        ({"profile": None}, {"profile"}),
        ({"profile": ""}, {"profile"}),
        ({"receives": "planning"}, {"receives"}),
        ({"note": "x" * 201}, {"note"}),
        ({"phase": "x"}, {"phase"}),
    ],
    ids=str,
)
def test_refused_links_publish_nothing(api, data, fields):
    response = api.post(LINKS, data)
    assert response.status_code == 422, response.content
    assert fields_of(response) == fields
    assert not PhaseLink.objects.exists()


@pytest.mark.parametrize("path", ["/9", "/9/activate"])
def test_missing_version(api, path):
    response = api.post(LINKS + path) if path.endswith("activate") else api.get(LINKS + path)
    assert response.status_code == 404


def test_a_context_is_filtered_by_the_profile_that_the_phase_uses(api):
    answer = api.post(
        "/phases/implementation/filter", {"context": {"tree": "a", "files": {"a.py": "x"}}}
    ).json()
    assert (answer["phase"], answer["context"]["tree"]) == ("building", "")
    assert answer["context"]["files"]
