import pytest

from contextopt.agents.models import Task
from contextopt.assemblies.models import Assembly
from tests import factories
from tests.contextopt.agents.timeline.journeys import travel
from tests.contextopt.api.conftest import fields_of


@pytest.fixture
def task(team) -> Task:
    return travel(team)


def test_read(api, task, django_assert_num_queries):
    # the key, its last use, its first use this way, the task, nine for the events, three for the accounts and
    # two for the names of phases
    with django_assert_num_queries(17):
        answer = api.get(f"/tasks/{task.pk}/timeline").json()
    account, rows = answer["account"], answer["items"]
    assert (answer["task_id"], answer["next_cursor"], len(rows)) == (task.pk, None, 14)
    assert account["sent_tokens"] == sum(row["sent_tokens"] or 0 for row in rows)
    assert account["saved_tokens"] == sum(row["saved_tokens"] or 0 for row in rows)
    named = [*answer["agent_phases"], *answer["handoffs"].values()]
    assert sum(each["sent_tokens"] for each in named) == account["sent_tokens"]
    assert [each["phase"] for each in answer["agent_phases"]] == [
        "confidence", "planning", "building", "diagnosis", "reviewing", "completing", None,
    ]  # fmt: skip
    assert list(answer["handoffs"]) == ["analysis", "design", "implementation"]
    for name in ("assemblies", "sent_tokens", "full_tokens", "compared"):
        assert account[name] == sum(phase[name] for phase in answer["phases"].values())
    assert account["assemblies"] == Assembly.objects.filter(task=task).count()
    context = next(row for row in rows if row["kind"] == "context")
    detail = api.get(f"/assemblies/{context['assembly_id']}").json()
    assert (detail["tokens_after"], detail["tokens_saved"]) == (
        context["sent_tokens"],
        context["saved_tokens"],
    )


def test_pages_and_kinds(api, task):
    path = f"/tasks/{task.pk}/timeline"
    first = api.get(path, limit=9).json()
    rest = api.get(path, limit=9, cursor=first["next_cursor"]).json()
    assert rest["next_cursor"] is None
    assert first["items"] + rest["items"] == api.get(path).json()["items"]
    assert first["account"] == rest["account"]
    attempts = api.get(path, kind="attempt").json()
    assert [row["attempt"] for row in attempts["items"]] == [1, 2]
    assert attempts["account"] == first["account"]


def test_a_new_task_has_nothing(api, team):
    answer = api.get(f"/tasks/{factories.make_task(team).pk}/timeline").json()
    assert (answer["items"], answer["account"]["assemblies"]) == ([], 0)
    assert answer["account"]["saved_tokens"] is None


@pytest.mark.parametrize(
    ("query", "field"),
    [({"kind": "party"}, "kind"), ({"limit": 201}, "limit"), ({"cursor": "x"}, "cursor"), ({"at": 1}, "at")],
)
def test_bad_queries(api, team, query, field):
    response = api.get(f"/tasks/{factories.make_task(team).pk}/timeline", **query)
    assert (response.status_code, fields_of(response)) == (422, {field})
