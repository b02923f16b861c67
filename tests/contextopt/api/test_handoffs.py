from typing import Any

import pytest

from contextopt.agents.handoffs.models import Finding, PhaseCompression
from contextopt.agents.models import Task
from tests import factories
from tests.contextopt.api.conftest import fields_of

RISK = {"category": "risks", "content": {"description": "Floats in shop/cart.py", "severity": "high"}}


@pytest.fixture
def task(team) -> Task:
    return factories.make_task(team)


@pytest.fixture
def path(task) -> str:
    return f"/tasks/{task.pk}"


def test_findings_without_a_task(api):
    other = {"category": "risks", "content": {"description": "Dates in shop/order.py", "severity": "low"}}
    findings = [{"id": "a", **RISK, "tags": ["critical"]}, {"id": "b", **other}]
    answer = api.post("/compress-findings", {"phase": "analysis", "findings": findings}).json()
    assert answer["critical_findings"] == ["a"]
    assert 0 < answer["token_count"] <= 450
    assert not Finding.objects.exists()
    small = {"phase": "analysis", "findings": findings, "budget": 20}
    assert api.post("/compress-findings", small).json()["token_count"] <= 20
    wrong = {"phase": "analysis", "findings": [{"content": {}}]}
    assert fields_of(api.post("/compress-findings", wrong)) == {"findings.0.category"}
    assert fields_of(api.post("/compress-findings", {**small, "encoding": "none"})) == {"encoding"}
    assert fields_of(api.post("/compress-findings", {**small, "budget": 0})) == {"budget"}
    assert fields_of(api.post("/compress-findings", {**small, "phase": "analysys"})) == {"phase"}


def test_from_findings_to_the_next_phase(api, path, task):
    created = api.post(f"{path}/findings", {**RISK, "tags": ["critical"]})
    assert created.status_code == 201
    assert created["Location"] == f"/api/v1{path}/findings/F-001"
    finding = created.json()
    assert (finding["id"], finding["phase"], finding["created_by"]) == ("F-001", "analysis", "key:admin-key")
    api.post(f"{path}/findings", {**RISK, "depends_on": ["F-001"]})
    api.post(f"{path}/findings", {**RISK, "confidence": 0.1})
    compressed = api.post(f"{path}/compress").json()
    stored = compressed["knowledge_pool"]["phase_compressions"]["analysis"]
    assert (compressed["phase"], stored["critical_findings"]) == ("analysis", ["F-001"])
    assert {"id": "F-003", "reason": "speculation"} in stored["discarded"]
    advanced = api.post(f"{path}/advance", {"to": "design"}).json()
    assert advanced["phase"] == "design"
    assert advanced["knowledge_pool"] == compressed["knowledge_pool"]
    assert api.get(path).json()["knowledge_pool"] == compressed["knowledge_pool"]
    assert api.get(path).json()["phase"] == "design"
    bundle = api.post(f"{path}/bundle", {"context": {"files": {"a.py": "x = 1\n"}}}).json()
    assert bundle["from_phase"] == "analysis"
    assert [each["id"] for each in bundle["critical_findings"]] == ["F-001"]
    assert bundle["critical_findings"][0]["content"] == RISK["content"]
    assert bundle["text"].endswith("## Files\n### a.py\n> x = 1\n")
    assert bundle["tokens"] == bundle["brief_tokens"] + bundle["critical_tokens"] + bundle["context_tokens"]
    # Discarded content is one request away.
    for reference in bundle["references"]:
        whole = api.get(reference["url"].removeprefix("/api/v1")).json()
        assert whole["content"] == RISK["content"]
    assert api.get(f"/assemblies/{bundle['assembly_id']}/verification").json()["ok"]
    assert api.get("/tasks", phase="design").json()["items"][0]["id"] == task.pk
    assert api.get("/tasks", phase="analysis").json()["items"] == []


def test_findings_are_listed_in_order_and_filtered(api, path):
    for category in ("risks", "constraints", "risks"):
        api.post(f"{path}/findings", {**RISK, "category": category})
    api.post(f"{path}/findings", {**RISK, "decision": "open"})
    ids = [item["id"] for item in api.get(f"{path}/findings").json()["items"]]
    assert ids == ["F-001", "F-002", "F-003", "F-004"]
    page = api.get(f"{path}/findings", limit=3).json()
    rest = api.get(f"{path}/findings", limit=3, cursor=page["next_cursor"]).json()
    assert [item["id"] for item in page["items"] + rest["items"]] == ids
    assert len(api.get(f"{path}/findings", category="constraints").json()["items"]) == 1
    assert api.get(f"{path}/findings", decision="open").json()["items"][0]["id"] == "F-004"
    assert api.get(f"{path}/findings", phase="design").json()["items"] == []


def test_open_decisions_are_a_conflict_until_they_are_resolved(api, path):
    api.post(f"{path}/findings", {**RISK, "decision": "open"})
    for action in ("compress", "advance"):
        refused = api.post(f"{path}/{action}")
        assert refused.status_code == 409
        assert refused.json()["open_decisions"] == ["F-001"]
        assert "F-001" in refused.json()["detail"]
    resolved = api.post(f"{path}/findings/F-001/resolutions", {"answer": "Whole cents"}).json()
    assert (resolved["decision"], resolved["resolved_by"]) == ("resolved", "key:admin-key")
    corrected = api.post(f"{path}/findings/F-001/resolutions", {"answer": "Half up"})
    assert (corrected.status_code, corrected.json()["answer"]) == (201, "Half up")
    assert corrected["Location"].endswith("/findings/F-001")
    answers = api.get(f"{path}/findings/F-001/resolutions").json()["items"]
    assert [(each["number"], each["answer"]) for each in answers] == [(2, "Half up"), (1, "Whole cents")]
    for data in ({}, {"answer": " "}, {"answer": "x" * 2_001}):
        assert fields_of(api.post(f"{path}/findings/F-001/resolutions", data)) == {"answer"}
    assert api.post(f"{path}/advance").json()["phase"] == "design"


def test_a_forced_hand_off_says_so(api, path):
    api.post(f"{path}/findings", {**RISK, "decision": "open"})
    stored = api.post(f"{path}/advance", {"force": True}).json()["knowledge_pool"]["phase_compressions"]
    assert (stored["analysis"]["forced"], stored["analysis"]["open_decisions"]) == (True, ["F-001"])


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"content": []}, "content"),
        ({"depends_on": ["F-002"]}, "depends_on.0"),
        ({"id": "F-001", "depends_on": ["F-001"]}, "depends_on.0"),
        ({"id": "F-004"}, "id"),
        ({"phase": "design"}, "phase"),
        ({"phase": "testing"}, "phase"),
        ({"tags": ["a\nb"]}, "tags.0"),
        ({"severity": "high"}, "severity"),
    ],
)
def test_a_bad_finding_names_its_field_and_writes_nothing(api, path, changes: dict[str, Any], field: str):
    response = api.post(f"{path}/findings", {**RISK, **changes})
    assert response.status_code == 422
    assert fields_of(response) == {field}
    assert not Finding.objects.exists()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_numbers_that_are_none_are_named(api, path, number):
    body = '{"category": "risks", "content": {"x": 1}, "confidence": NUMBER}'.replace("NUMBER", number)
    response = api.post(f"{path}/findings", body)
    assert response.status_code == 422
    assert fields_of(response) == {"confidence"}


def test_a_taken_id_is_named(api, path):
    api.post(f"{path}/findings", RISK)
    response = api.post(f"{path}/findings", {**RISK, "id": "F-001"})
    assert fields_of(response) == {"id"}
    assert Finding.objects.count() == 1


def test_what_is_no_json_is_a_problem(api, path):
    response = api.post(f"{path}/findings", '{"category": ')
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"


def test_a_late_finding_reaches_the_next_bundle(api, path):
    api.post(f"{path}/findings", RISK)
    api.post(f"{path}/advance")
    first = api.post(f"{path}/bundle").json()
    late = api.post(f"{path}/findings", {**RISK, "phase": "analysis"})
    assert (late.status_code, late.json()["phase"]) == (201, "analysis")
    (warning,) = api.get(f"{path}/status").json()["warnings"]
    assert (warning["code"], warning["remedy"]) == ("not_compressed", None)
    again = api.post(f"{path}/compress", {"phase": "analysis"}).json()
    assert again["warnings"] == []
    assert again["knowledge_pool"]["phase_compressions"]["analysis"]["version"] == 2
    bundle = api.post(f"{path}/bundle").json()
    assert {each["id"] for each in first["references"]} == {"F-001"}
    assert {each["id"] for each in bundle["references"]} == {"F-001", "F-002"}
    versions = api.get(f"{path}/compressions", limit=1).json()
    assert [(each["phase"], each["version"]) for each in versions["items"]] == [("analysis", 1)]
    rest = api.get(f"{path}/compressions", cursor=versions["next_cursor"]).json()["items"]
    assert [each["version"] for each in rest] == [2]
    assert api.get(f"{path}/compressions", phase="design").json()["items"] == []
    assert api.post(f"{path}/compress", {"phase": "implementation"}).status_code == 409


def test_a_finding_is_tagged_and_linked_afterwards(api, path):
    for _ in range(2):
        api.post(f"{path}/findings", RISK)
    changed = api.patch(f"{path}/findings/F-002", {"tags": ["critical"], "depends_on": ["F-001"]})
    assert changed.status_code == 200
    assert changed.json()["tags"] == ["critical"]
    assert changed.json()["depends_on"] == ["F-001"]
    assert changed.json()["relabelled_by"] == "key:admin-key"
    assert changed.json()["content"] == RISK["content"]
    circle = api.patch(f"{path}/findings/F-001", {"depends_on": ["F-002"]})
    assert (circle.status_code, fields_of(circle)) == (422, {"depends_on.0"})
    assert fields_of(api.patch(f"{path}/findings/F-001", {"content": {"x": 1}})) == {"content"}
    assert api.patch(f"{path}/findings/F-009", {"tags": []}).status_code == 404


def test_phases_are_not_skipped(api, path):
    api.post(f"{path}/findings", RISK)
    assert api.post(f"{path}/advance", {"to": "implementation"}).status_code == 409
    assert fields_of(api.post(f"{path}/advance", {"to": "analysis "})) == {"to"}
    assert not PhaseCompression.objects.exists()


@pytest.mark.parametrize(
    ("key", "status"), [("F-007", 404), ("F-", 422), ("F-99999999999", 422), ("f-1", 200)]
)
def test_findings_by_id(api, path, key, status):
    api.post(f"{path}/findings", RISK)
    assert api.get(f"{path}/findings/{key}").status_code == status


def test_as_many_queries_for_twenty_findings_as_for_two(api, path, task, django_assert_num_queries):
    for wanted in (2, 20):
        while task.findings.count() < wanted:
            factories.make_finding(task)
        api.get(path)
        with django_assert_num_queries(3):  # key, task, findings
            api.get(f"{path}/findings")
        with django_assert_num_queries(6):  # key, task, findings, compressions, settings, account
            api.get(f"{path}/status")
