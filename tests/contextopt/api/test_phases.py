import pytest

from contextopt.agents.models import PhaseProfile
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.engine.agents.phases import DEFAULT_PROFILES
from tests import factories
from tests.contextopt.api.conftest import fields_of

FILTER = "/phases/building/filter"
PROFILES = "/phases/building/profiles"
CONTEXT = factories.make_agent_context().to_json()


def test_filter(api, django_assert_num_queries):
    body = {"context": CONTEXT, "counter": "heuristic", "model": "opus"}
    # the key, its last use, its first use this way, link, profile, savepoint, row, payload, release
    with django_assert_num_queries(9):
        response = api.post(FILTER, body)
    answer = response.json()
    assert response.status_code == 201
    assert response["Location"] == f"/api/v1/assemblies/{answer['id']}"
    assert (answer["full_tokens"], answer["filtered_tokens"]) == (5_175, 2_550)
    assert (answer["saved_tokens"], answer["saved_percent"]) == (2_625, 51)
    assert (answer["budget_tokens"], answer["profile_version"]) == (50_000, None)
    assert answer["context"]["files"] == CONTEXT["files"]
    assert answer["context"]["memories"] == []
    assert answer["context"]["task"] == CONTEXT["task"]
    assert answer["warnings"] == answer["trimmed"] == []
    assert Assembly.objects.get(pk=answer["id"]).model == "opus"


def test_the_assembly_of_a_filtering_can_be_read_and_verified(api):
    answer = api.post(FILTER, {"context": CONTEXT}).json()
    detail = api.get(f"/assemblies/{answer['id']}").json()
    assert (detail["kind"], detail["phase"], detail["space"]) == ("phase", "building", None)
    assert detail["text"] == answer["text"]
    assert detail["tokens_saved"] == answer["saved_tokens"]
    assert api.get(f"/assemblies/{answer['id']}/verification").json()["ok"]
    assert [row["id"] for row in api.get("/assemblies", kind="phase").json()["items"]] == [answer["id"]]


def test_a_filtering_of_a_task(api, team, other_team):
    task = factories.make_task(team)
    answer = api.post(FILTER, {"context": CONTEXT, "task_id": task.pk}).json()
    assert Assembly.objects.get(pk=answer["id"]).task == task
    response = api.post(FILTER, {"context": CONTEXT, "task_id": factories.make_task(other_team).pk})
    assert (response.status_code, fields_of(response)) == (422, {"task_id"})
    assert Assembly.objects.count() == 1


def test_trimmed_to_the_budget(api):
    api.post(PROFILES, {"budget_tokens": 600})
    answer = api.post(FILTER, {"context": CONTEXT}).json()
    assert answer["filtered_tokens"] == answer["certificate"]["tokens"] <= 600
    assert answer["profile_version"] == 1
    assert [cut["field"] for cut in answer["trimmed"]] == ["files"]
    (warning,) = answer["warnings"]
    assert (warning["code"], warning["remedy"]) == ("over_budget", None)
    ledger = api.get(f"/assemblies/{answer['id']}").json()["ledger"]
    assert ledger["warnings"] == answer["warnings"]


def test_a_warning_from_before_codes_reads_as_a_note(api):
    answer = api.post(FILTER, {"context": CONTEXT}).json()
    payload = AssemblyPayload.objects.get(pk=answer["id"])
    payload.ledger["warnings"] = ["9 tokens over the budget"]
    payload.save()
    (warning,) = api.get(f"/assemblies/{answer['id']}").json()["ledger"]["warnings"]
    assert warning == {"code": "note", "message": "9 tokens over the budget", "remedy": None}


def test_unknown_phase(api):
    answer = api.post("/phases/dreaming/filter", {"context": CONTEXT}).json()
    assert answer["context"] == CONTEXT
    assert answer["budget_tokens"] is None
    # The whole context is sent with our marks, which cost tokens.
    assert answer["saved_tokens"] == answer["full_tokens"] - answer["filtered_tokens"] < 0
    assert [warning["code"] for warning in answer["warnings"]] == ["unknown_phase"]


def test_files_by_path_and_nulls(api):
    context = {"files": {"a.py": "one\n", "gone.py": None}, "tree": None, "memories": ["x", {"content": "y"}]}
    answer = api.post(FILTER, {"context": context}).json()
    assert answer["context"]["files"] == [{"path": "a.py", "content": "one\n"}]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "context"),
        ({"context": {"tree": "\x00"}}, "context.tree"),
        ({"context": {"tree_paths": ["ok", 5]}}, "context.tree_paths.1"),
        ({"context": {"files": [{"path": "a", "content": 5}]}}, "context.files.0.content"),
        ({"context": {"files": [{"path": " ", "content": ""}]}}, "context.files.0.path"),
        ({"context": {"files": [{"path": "a" * 501, "content": ""}]}}, "context.files.0.path"),
        ({"context": {"files": [{"path": "\u202e", "content": ""}]}}, "context.files.0.path"),
        ({"context": {"files": [{"path": "a", "content": "x"}] * 2}}, "context.files.1.path"),
        ({"context": {"files": [{"path": "a", "content": "x" * 1_000_001}]}}, "context.files.0.content"),
        ({"context": {"files": {"a": "\x00"}}}, "context.files.0.content"),
        ({"context": {"memories": [{"n": 2**63}]}}, "context.memories.0"),
        ({"context": {"docs": [{"n": "\x00"}]}}, "context.docs.0"),
        ({"context": {"tree": "x" * 4_000_001}}, "context"),
        ({"context": {}, "counter": "fingers"}, "counter"),
        ({"context": {}, "encoding": "klingon"}, "encoding"),
        ({"context": {}, "encoding": ""}, "encoding"),
        ({"context": {}, "model": "x" * 121}, "model"),
        ({"context": {}, "budget": 5}, "budget"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_the_field_is_named(api, body, field):
    response = api.post(FILTER, body)
    assert response.status_code == 422, response.content
    assert fields_of(response) == {field}
    assert not Assembly.objects.exists()


@pytest.mark.parametrize("phase", ["x" * 65, "%20", "%00"])
def test_a_phase_that_cannot_be_named(api, phase):
    response = api.post(f"/phases/{phase}/filter", {"context": {}})
    assert response.status_code == 422
    assert fields_of(response) == {"phase"}


def test_active_profiles(api, team, django_assert_num_queries):
    factories.make_profile(team, "security", budget_tokens=10, fields=["docs"])
    factories.make_profile(team, budget_tokens=9_000)
    api.get("/me")
    with django_assert_num_queries(2):  # the key, the profiles
        items = api.get("/phases").json()["items"]
    assert [item["phase"] for item in items] == [*DEFAULT_PROFILES, "security"]
    building = next(item for item in items if item["phase"] == "building")
    assert building == {
        "phase": "building", "version": 1, "budget_tokens": 9_000, "fields": ["files", "package_manifest"],
    }  # fmt: skip


def test_publish_list_read_and_activate(api):
    first = api.post(PROFILES, {"budget_tokens": 9_000, "note": "smaller"})
    assert first.status_code == 201
    assert first["Location"] == "/api/v1/phases/building/profiles/1"
    second = api.post(PROFILES, {"fields": ["files"]}).json()
    assert (second["version"], second["budget_tokens"], second["fields"]) == (2, 9_000, ["files"])
    assert second["created_by"] == "key:admin-key"
    items = api.get(PROFILES).json()["items"]
    assert [(item["version"], item["is_active"]) for item in items] == [(2, True), (1, False)]
    assert api.get(f"{PROFILES}/1").json() == items[1]
    assert api.post(f"{PROFILES}/1/activate").json()["is_active"]
    assert PhaseProfile.objects.get(is_active=True).version == 1


def test_a_phase_with_a_strange_name(api):
    path = "/phases/m%C3%B8te%2Fen/profiles"
    response = api.post(path, {"budget_tokens": 1, "fields": []})
    # A slash ends the name in a path, even when it is percent-encoded.
    assert response.status_code == 404
    response = api.post("/phases/m%C3%B8te%20en/profiles", {"budget_tokens": 1, "fields": []})
    assert response["Location"] == "/api/v1/phases/m%C3%B8te%20en/profiles/1"
    assert api.client.get(response["Location"]).json()["phase"] == "møte en"


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        ({"budget_tokens": -1}, {"budget_tokens"}),
        ({"budget_tokens": 2_000_001}, {"budget_tokens"}),
        ({"budget_tokens": None}, {"budget_tokens"}),
        ({"budget_tokens": "many"}, {"budget_tokens"}),
        ({"fields": ["soul"]}, {"fields.0"}),
        ({"fields": ["tree", "tree"]}, {"fields"}),
        ({"fields": "tree"}, {"fields"}),
        ({"note": "x" * 201}, {"note"}),
        ({"phase": "x"}, {"phase"}),
    ],
    ids=str,
)
def test_refused_profiles_publish_nothing(api, data, fields):
    response = api.post(PROFILES, data)
    assert response.status_code == 422, response.content
    assert fields_of(response) == fields
    assert not PhaseProfile.objects.exists()


def test_a_new_phase_needs_everything(api):
    response = api.post("/phases/security/profiles", {})
    assert fields_of(response) == {"budget_tokens", "fields"}


@pytest.mark.parametrize("path", ["/9", "/9/activate"])
def test_missing_version(api, path):
    response = api.post(PROFILES + path) if path.endswith("activate") else api.get(PROFILES + path)
    assert response.status_code == 404
