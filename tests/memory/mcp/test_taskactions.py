"""An agent changes its task through `task_step`, and a person asks for it with a prompt."""

import re
from typing import Any

import pytest

from contextopt.agents.completions import Completion
from contextopt.agents.handoffs.models import Finding
from contextopt.agents.models import Attempt, Task
from contextopt.people.models import Scope, Team
from memory.mcp.taskactions import TAKEN_BY
from memory.mcp.taskprompts import PROMPTS
from memory.strategies.strategies import success_rates
from tests import factories
from tests.memory.factories import make_strategy, make_use
from tests.memory.mcp.conftest import Door, text_of
from tests.memory.mcp.test_contexts import size

RISK = {"category": "risks", "content": {"risk": "Rounding loses cents."}, "confidence": 0.8}


def test_a_task_from_its_first_finding_to_its_end(door: Door, team: Team) -> None:
    task = factories.make_task(team)

    def step(**arguments: Any) -> str:
        return text_of(door.call("task_step", task_id=task.pk, **arguments))

    added = step(action="add_finding", finding={**RISK, "decision": "open"})
    assert added.startswith("F-001 added to analysis, ")
    assert f"Task {task.pk}, open, in analysis." in added
    assert "Warning open_decisions: analysis: decisions are open: F-001" in added
    refused = door.call("task_step", task_id=task.pk, action="advance")
    assert refused.is_error
    assert "F-001" in text_of(refused)
    assert step(action="resolve_finding", finding_id="f-1", answer="Half up").startswith("F-001 is decided.")
    assert step(action="compress").startswith("Compressed analysis, version 1.")
    assert step(action="advance").startswith("The task is in design now.")
    status = step(action="status")
    assert "handed on as" in status
    assert "> Rounding loses cents; decided: Half up" in status
    assert "> Rounding loses cents; decided: Half up" in step(phase="design")
    failed = step(action="failed", error="E  assert 7 == 8", phase="building")
    assert "## Latest error\n> E  assert 7 == 8" in failed
    assert Attempt.objects.count() == 1
    done = step(action="complete", quality=8, plan="Round it", files={"cart.py": None})
    assert done.startswith("The task is completed, ")
    assert Task.objects.get().state == "completed"
    assert Completion.objects.get().report["files_changed"] == ["cart.py"]


@pytest.mark.parametrize("outcome", ["failed", "impossible"])
def test_a_task_that_was_not_completed(door: Door, team: Team, outcome: str) -> None:
    strategy = make_strategy(team)
    task = factories.make_task(team)
    make_use(strategy, task=task)
    answer = door.call("task_step", task_id=task.pk, action="complete", outcome=outcome, plan="Round it")
    assert text_of(answer).startswith(f"The task is {outcome}, 0 memories stored.")
    assert (Task.objects.get(pk=task.pk).state, success_rates([strategy])) == (outcome, {strategy.pk: 0})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"action": "status"}, "task_id: is missing"),
        ({"action": "status", "task_id": 2**40}, "There is no task"),
        ({"action": "fly"}, "action"),
        ({"action": "failed", "task": "Fix it"}, "error: give error or root_cause"),
        ({"action": "status", "task_id": 1, "answer": "x"}, "answer: is only for resolve_finding"),
        ({"task": "Fix it", "force": True}, "force: is only for compress and advance"),
        ({"task": "Fix it", "outcome": "failed"}, "outcome: is only for complete"),
        ({"action": "complete", "task_id": 1, "outcome": "open"}, "outcome"),
        ({"task": "Fix it", "finding": RISK}, "finding: is only for add_finding"),
    ],
)
def test_a_fault_is_named(door: Door, arguments: dict[str, Any], words: str) -> None:
    answer = door.call("task_step", **arguments)
    assert answer.is_error
    assert words in text_of(answer)
    assert not Task.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"action": "add_finding", "finding": {}}, "category"),
        ({"action": "add_finding", "finding": {**RISK, "confidence": 2}}, "confidence"),
        ({"action": "resolve_finding", "finding_id": "x", "answer": "y"}, "finding_id"),
        ({"action": "resolve_finding", "finding_id": "F-001", "answer": " "}, "answer"),
        ({"action": "complete"}, "quality: is missing"),
        ({"action": "compress"}, "no findings"),
    ],
)
def test_a_fault_in_an_action_is_named(door: Door, team: Team, arguments: dict[str, Any], words: str) -> None:
    task = factories.make_task(team)
    answer = door.call("task_step", task_id=task.pk, **arguments)
    assert answer.is_error
    assert words in text_of(answer)
    assert not Finding.objects.exists()


def test_a_status_is_within_the_limit(door: Door, team: Team) -> None:
    task = factories.make_task(team)
    for number in range(30):
        factories.make_finding(task, content={"risk": f'Part {number} "fails" \\ often.'})
    factories.make_advance(task)
    answer = text_of(door.call("task_step", task_id=task.pk, action="status", max_tokens=200))
    assert size(answer) <= 200
    assert "not fit." in answer


def test_a_key_that_may_only_read_reads_the_status(address: str, team: Team) -> None:
    task = factories.make_task(team)
    reader = Door("http", "2026-07-28", factories.make_key(team, Scope.READ)[1], address)
    assert not reader.call("task_step", task_id=task.pk, action="status").is_error
    for action in sorted({action for actions in TAKEN_BY.values() for action in actions}):
        assert reader.call("task_step", task_id=task.pk, action=action).is_error


def test_the_prompts_name_calls_that_there_are(door: Door) -> None:
    listed = door.visit(lambda client: client.list_prompts()).prompts
    assert [each.name for each in listed] == [
        "add_finding", "resolve_finding", "compress_phase", "advance_phase", "task_status", "complete_task",
    ]  # fmt: skip
    schema = next(
        tool for tool in door.visit(lambda client: client.list_tools()).tools if tool.name == "task_step"
    ).input_schema
    actions = schema["properties"]["action"]["enum"]
    for prompt in PROMPTS:
        arguments = {each.name: "7" for each in prompt.arguments or ()}
        got = door.visit(lambda client, name=prompt.name, given=arguments: client.get_prompt(name, given))
        text = got.messages[0].content.text
        assert {*re.findall(r"action (\w+)", text)} <= {*actions}
        assert "task 7" in text or "task_id 7" in text
