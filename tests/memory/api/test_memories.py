"""Memories, completions and hints over HTTP."""

import pytest

from contextopt.people.models import Team
from memory.memories.models import Memory
from tests import factories
from tests.contextopt.api.conftest import fields_of
from tests.memory.factories import make_memory, make_strategy

LIKE = "Fix wrong rounding of the prices in the shopping cart"
REPORT = {
    "description": "Fix the rounding error of prices in the cart", "repository": "shop",
    "plan": ["One", "Two"], "attempts": [], "total_attempts": 1, "quality_score": 7,
    "decisions": ["Half even"],
}  # fmt: skip


def test_a_memory_is_made_read_changed_deleted_restored(api, team: Team) -> None:
    space = factories.make_space(team)
    response = api.post(
        "/memories", {"content": "Prices are decimals", "space": space.slug, "tags": ["money"]}
    )
    assert response.status_code == 201
    path = f"/memories/{response.json()['id']}"
    assert response["Location"] == f"/api/v1{path}"
    assert response.json()["space"] == space.slug
    assert api.get(path).json()["access_count"] == 1
    assert api.patch(path, {"memory_type": "recipe"}).json()["memory_type"] == "recipe"
    assert api.delete(path).status_code == 204
    assert api.patch(path, {"title": "x"}).status_code == 409
    assert api.get("/memories").json()["items"] == []
    assert api.post(f"{path}/restore").json()["deleted_at"] is None


def test_the_list_by_filters_and_in_pages(api, team: Team) -> None:
    made = [make_memory(team, content=f"Number {number}").pk for number in range(5)]
    make_memory(team, memory_type="decision", repository="shop", tags=[], trust_level="external")
    for query in ({"memory_type": "decision"}, {"repository": "shop"}, {"trust_level": "external"}):
        assert len(api.get("/memories", **query).json()["items"]) == 1
    first = api.get("/memories", tag="money", limit=3).json()
    second = api.get("/memories", tag="money", limit=3, cursor=first["next_cursor"]).json()
    assert [row["id"] for row in first["items"] + second["items"]] == made[::-1]
    assert second["next_cursor"] is None
    assert {row["access_count"] for row in first["items"]} == {0}


def test_as_many_queries_for_twenty_as_for_two(api, team: Team, django_assert_num_queries) -> None:
    api.get("/memories")
    for wanted in (2, 20):
        while Memory.objects.count() < wanted:
            make_memory(team)
        with django_assert_num_queries(2):  # the key, the page
            api.get("/memories")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"content": " "}, "content"), ({"content": "x" * 10_001}, "content"),
        ({"content": "a\x00"}, "content"),
        ({"content": "a", "trust_level": "god"}, "trust_level"), ({"content": "a", "space": "none"}, "space"),
        ({"content": "a", "task_id": 99}, "task_id"),
        ({"content": "a", "payload": {"a": "\ud800"}}, "payload"),
        ({"content": "a", "memory_type": ""}, "memory_type"), ({"content": "a", "nope": 1}, "nope"),
    ],
)  # fmt: skip
def test_bad_memories_name_the_field(api, body: dict, field: str) -> None:
    response = api.post("/memories", body)
    assert response.status_code in {400, 422}
    if response.status_code == 422:
        assert {name.split(".")[0] for name in fields_of(response)} == {field}
    assert not Memory.objects.exists()


def test_null_does_not_empty_a_memory(api, team: Team) -> None:
    path = f"/memories/{make_memory(team).pk}"
    for name in ("content", "tags", "trust_level", "payload", "memory_type"):
        assert api.patch(path, {name: None}).status_code == 422
        assert api.patch(path, {}).status_code == 200


def test_completing_hinting_and_rating(api, team: Team) -> None:
    response = api.post("/completions", REPORT)
    assert response.status_code == 201
    first = response.json()
    assert first["pattern"] == "fix bug"
    assert [each["memory_type"] for each in first["stored"]] == ["strategy", "decision"]
    again = api.post("/completions", REPORT)
    assert (again.status_code, again.json()["strategy_id"]) == (200, first["strategy_id"])
    assert Memory.objects.count() == 2
    hint = api.post(
        "/strategy-hints", {"task": LIKE, "repository": "shop", "task_id": first["task_id"]}
    ).json()
    assert hint["memory_id"] == first["strategy_id"]
    rated = api.post(f"/strategy-uses/{hint['use_id']}/rating", {"rating": "down", "tokens_saved": 5}).json()
    assert rated["trust"] == pytest.approx(0.35)
    # Savings that a caller claims don't count.
    assert rated["tokens_saved"] is None
    for wrong in (2, "sideways", None):
        assert api.post(f"/strategy-uses/{hint['use_id']}/rating", {"rating": wrong}).status_code == 422


def test_a_task_that_has_ended_takes_no_other_report(api, team: Team) -> None:
    task = factories.make_task(team)
    assert api.post("/completions", {**REPORT, "task_id": task.pk}).status_code == 201
    assert api.post("/completions", {**REPORT, "task_id": task.pk, "quality_score": 1}).status_code == 409
    assert api.post("/completions", {**REPORT, "task_id": 99_999}).status_code == 404
    assert fields_of(api.post("/completions", {"quality_score": 8})) == {"description"}


def test_no_hint_is_null(api, team: Team) -> None:
    make_strategy(team)
    assert api.post("/strategy-hints", {"task": "Water the plants"}).json() == {
        "hint": None, "match_score": None, "similarity": None, "word_share": None, "same_pattern": None,
        "memory_id": None, "use_id": None, "assembly_id": None,
    }  # fmt: skip


def test_a_pattern(api) -> None:
    assert api.post("/task-patterns", {"task": "Fiks TypeScript-feilen i auth.ts"}).json() == {
        "pattern": "fix bug"
    }


@pytest.mark.parametrize("most", [2**53, 2**63 - 1])
def test_savings_whose_sum_could_not_be_stored_are_refused(api, use, most: int) -> None:
    response = api.post(f"/strategy-uses/{use.pk}/rating", {"rating": "up", "tokens_saved": most})
    assert response.status_code == 422
    assert "1,000,000,000,000" in response.json()["errors"][0]["message"]
    assert fields_of(response) == {"tokens_saved"}
