"""A task's status."""

from contextopt.agents.models import Task
from tests.contextopt.agents.handoffs.journeys import status
from tests.factories import make_advance, make_finding


def test_status_has_it_all(task: Task) -> None:
    make_finding(task)
    make_finding(task, decision="open")
    make_advance(task, force=True)
    found = status(task)
    pool = found["knowledge_pool"]["phase_compressions"]
    assert set(pool) == {"analysis"}
    assert {"brief", "critical_findings", "token_count"} <= set(pool["analysis"])
    assert pool["analysis"]["token_count"] == pool["analysis"]["tokens_after"]
    assert found["phase"] == "design"
    assert found["tokens"]["design"]["input_budget"] == 36_800
    assert found["tokens"]["implementation"]["input_budget"] == 37_600
    assert (
        found["tokens"]["analysis"] | {"input_budget": 35_000, "output_budget": 7_200}
        == found["tokens"]["analysis"]
    )
    warning = next(each for each in found["warnings"] if each["code"] == "open_decisions")
    assert warning == {
        "code": "open_decisions", "message": "analysis: decisions are open: F-002", "remedy": None,
    }  # fmt: skip


def test_status_asks_as_often_whatever_there_is(task: Task, django_assert_num_queries) -> None:
    for wanted in (2, 20):
        while task.findings.count() < wanted:
            make_finding(task)
        # task, findings, compressions, settings, account
        with django_assert_num_queries(5):
            status(task)
