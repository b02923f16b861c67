"""The endpoint for a step: what it answers, who may ask, and what it refuses."""

from typing import Any

import pytest

from contextopt.agents.models import Attempt, Task
from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from contextopt.repositories.models import Repository
from contextopt.spaces.models import Space
from tests import factories
from tests.contextopt.api.conftest import Caller, fields_of
from tests.memory.factories import make_memory
from tests.memory.steps.conftest import TASK, shop
from tests.queries import count_queries

__all__ = ["shop"]

STEP = {"task": TASK, "repository": "shop", "phase": "building"}


def test_post(api: Caller, shop: Repository, space: Space) -> None:
    response = api.post("/agent-context", STEP | {"phase": "planning", "space": space.slug})
    answer = response.json()
    assert response.status_code == 201
    assert response["Location"] == f"/api/v1/assemblies/{answer['id']}"
    assembly = Assembly.objects.get()
    assert (answer["id"], answer["task_id"]) == (assembly.pk, Task.objects.latest("id").pk)
    assert answer["certificate"]["tokens"] == sum(each["tokens"] for each in answer["sections"])
    assert answer["certificate"]["sha256"] == assembly.sha256
    assert (answer["full_tokens"], answer["saved_tokens"], answer["saved_percent"]) == (None, None, None)
    assert [record["kept"] for record in answer["records"]] == [True]
    assert answer["strategy"]["use_id"]
    assert answer["attempt"] is None
    [row] = api.get("/assemblies", kind="agent").json()["items"]
    assert (row["id"], row["kind"], row["phase"]) == (assembly.pk, "agent", "planning")
    detail = api.get(f"/assemblies/{assembly.pk}").json()
    assert detail["text"] == answer["text"]
    verified = api.get(f"/assemblies/{assembly.pk}/verification").json()
    assert verified["differences"] == []


def test_a_failure_is_an_attempt(api: Caller, shop: Repository) -> None:
    task = api.post("/agent-context", STEP).json()["task_id"]
    failure = {"diagnosis": {"root_cause": "implementation_error"}, "files": {"shop/cart.py": "x = 1\n"}}
    answer = api.post("/agent-context", {"task_id": task, "phase": "building", "failure": failure}).json()
    assert (answer["attempt"]["number"], answer["attempt"]["action"]) == (1, "retry")
    assert answer["task"].endswith("[RETRY 1] Diagnosis: implementation_error.")
    assert Attempt.objects.get().assembly_id == answer["id"]


def test_a_task_that_waits_has_no_context(api: Caller, team: Team) -> None:
    task = factories.make_task(team)
    failure = {"diagnosis": {"root_cause": "environment_error"}}
    response = api.post("/agent-context", {"task_id": task.pk, "failure": failure})
    answer = response.json()
    assert response.status_code == 200
    assert (answer["id"], answer["text"], answer["sections"], answer["saved_tokens"]) == (None, "", [], None)
    assert (answer["attempt"]["action"], answer["attempt"]["wait_seconds"]) == ("wait", 30)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "task"),
        ({"task": ""}, "task"),
        ({"task": "x", "task_id": 3}, "task"),
        ({"task": "x", "phase": ""}, "phase"),
        ({"task": "x", "phase": "dreaming"}, "phase"),
        ({"task": "x", "budget": 19}, "budget"),
        ({"task": "x", "budget": 200_001}, "budget"),
        ({"task": "x", "space": "no slug"}, "space"),
        ({"task": "x", "encoding": "nonsense"}, "encoding"),
        ({"task": "x", "counter": "heuristic"}, "counter"),
        ({"task": "x", "context": {"trees": ""}}, "context.trees"),
        ({"task": "x", "failure": {"files": {}}}, "failure.diagnosis"),
        ({"task": "x", "failure": {"diagnosis": {"root_cause": "x"}, "files": {"": "a"}}}, "failure.files"),
    ],
)
def test_post_refuses(api: Caller, body: dict[str, Any], field: str) -> None:
    response = api.post("/agent-context", body)
    assert response.status_code == 422
    assert fields_of(response) == {field}
    assert not Task.objects.exists()


@pytest.mark.parametrize("body", [{"task_id": 2**40}, {"repository": "nowhere"}, {"space": "nowhere"}])
def test_what_is_missing_is_named(api: Caller, shop: Repository, body: dict[str, Any]) -> None:
    before = Task.objects.count()
    response = api.post("/agent-context", {} | body if "task_id" in body else STEP | body)
    assert response.status_code == 404
    name, value = next(iter(body.items()))
    assert name.removesuffix("_id") in response.json()["detail"]
    assert str(value) in response.json()["detail"]
    assert Task.objects.count() == before


def test_who_may(
    api: Caller, reader: Caller, stranger: Caller, nobody: Caller, shop: Repository, space: Space
) -> None:
    assert reader.post("/agent-context", STEP).status_code == 403
    assert nobody.post("/agent-context", STEP).status_code == 401
    task = api.post("/agent-context", STEP).json()["task_id"]
    for body in ({"task_id": task}, STEP, {"task": "x", "space": space.slug}):
        assert stranger.post("/agent-context", body).status_code == 404


def test_the_number_of_queries_does_not_grow(api: Caller, shop: Repository, team: Team, space: Space) -> None:
    body = STEP | {"phase": "planning", "space": space.slug}
    factories.make_record(space, title="Prices")
    api.post("/agent-context", body)
    few = count_queries(lambda: api.post("/agent-context", body))
    for number in range(20):
        factories.make_record(space, title=f"Prices {number}")
        make_memory(team, title=f"Prices {number}", repository="shop")
    api.post("/agent-context", body)
    assert count_queries(lambda: api.post("/agent-context", body)) == few
