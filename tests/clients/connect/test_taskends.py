"""A task's end, confirmed by the person in a session of Claude Code, with the hook as a process."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from contextopt.agents.completions import Completion
from contextopt.agents.models import Task
from contextopt.people.models import Team
from memory.memories.models import Memory
from tests import factories
from tests.clients.connect.test_hook import CLOSED, Run, prompt, run, run_hook, sessions

__all__ = ["run"]

STEP = "mcp__contextopt__task_step"
PLAN = ["Write a failing test", "Sum in whole cents"]
type Say = Callable[[str], Any]


@pytest.fixture
def commands(run: Run) -> dict[str, str]:
    commands: dict[str, str] = run("claude")
    return commands


@pytest.fixture
def task(commands: dict[str, str]) -> Task:
    return factories.make_task(Team.objects.ensure_default(), description="Fix the rounding of prices")


@pytest.fixture
def say(commands: dict[str, str], repository: Path) -> Say:
    """Type a prompt; return the hook's answer."""
    return lambda text: run_hook(commands["UserPromptSubmit"], prompt(repository, text))


@pytest.fixture
def use(commands: dict[str, str], repository: Path) -> Callable[..., None]:
    """Let the agent call a tool."""

    def call(name: str, given: dict[str, Any], answer: Any = "") -> None:
        event = {"hook_event_name": "PostToolUse", "tool_name": name, "tool_input": given}
        event |= {"tool_response": answer, "session_id": "s-1", "cwd": str(repository)}
        assert run_hook(commands["PostToolUse"], event) is None

    return call


@pytest.fixture
def stop(commands: dict[str, str], repository: Path) -> Callable[..., Any]:
    def end(**more: Any) -> Any:
        event = {"hook_event_name": "Stop", "session_id": "s-1", "cwd": str(repository), **more}
        return run_hook(commands["Stop"], event)

    return end


def asked(task: Task) -> dict[str, str]:
    number = task.pk
    text = f"`contextopt done {number} quality 8` (0 to 10) or `contextopt failed {number}`"
    return {"systemMessage": f"Task {number} done? Type {text}."}


def test_a_confirmed_task_becomes_a_strategy(task: Task, say: Say, use: Any, stop: Any) -> None:
    use("TodoWrite", {"todos": [{"content": step, "status": "pending"} for step in PLAN]})
    use(STEP, {"task": task.description}, [{"type": "text", "text": f"Task {task.pk}, phase planning, …"}])
    use(STEP, {"task_id": task.pk, "phase": "building"})
    assert stop(stop_hook_active=True) is None
    assert [stop(), stop()] == [asked(task), None]
    answer = say(f"contextopt done {task.pk} quality 8")
    strategy = Memory.objects.get()
    told = f"Task {task.pk} is stored as completed. Its plan is remembered as strategy {strategy.pk}."
    assert answer == {"decision": "block", "reason": told}
    task.refresh_from_db()
    assert (task.state, task.quality_score) == ("completed", 8)
    assert all(step in strategy.content for step in PLAN)
    again = say(f"contextopt failed {task.pk}")
    told = f"Nothing was stored for task {task.pk}: Task {task.pk} is already completed."
    assert again == {"decision": "block", "reason": told}
    assert stop() is None
    [file] = sessions()
    assert json.loads(file.read_text())["plan"] == ""


def test_a_task_that_failed_is_stored_as_such(task: Task, say: Say, repository: Path) -> None:
    (repository / "prices.py").write_text("total = 3\n")
    answer = say(f"  contextopt failed {task.pk}\n")
    assert answer["reason"] == f"Task {task.pk} is stored as failed. No strategy: the task failed."
    assert "prices.py" in Completion.objects.get().report["files_changed"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("done {id}", "quality_score: is required if the task was completed. Type `contextopt done {id} "),
        ("done {id} quality 11", "quality_score: must be at most 10"),
    ],
)
def test_a_refusal_says_why(text: str, told: str, task: Task, say: Say) -> None:
    answer = say(f"contextopt {text.format(id=task.pk)}")
    assert answer["decision"] == "block"
    assert told.format(id=task.pk) in answer["reason"]
    task.refresh_from_db()
    assert task.is_open


def test_a_missing_task_is_named(say: Say, commands: dict[str, str]) -> None:
    assert "There is no task 4242." in say("contextopt failed 4242")["reason"]


@pytest.mark.parametrize(
    "text", ["contextopt done", "please: contextopt done 8", "contextopt done 8 quality high"]
)
def test_another_prompt_goes_on(text: str, say: Say) -> None:
    assert "decision" not in say(text)
    assert not Completion.objects.exists()


def test_an_agent_that_reports_the_end_itself_leaves_nothing_to_ask(task: Task, use: Any, stop: Any) -> None:
    use(STEP, {"task_id": task.pk})
    use(STEP, {"task_id": task.pk, "action": "complete", "quality": 8})
    assert stop() is None


def test_plans_come_from_the_tools_that_hold_them(task: Task, use: Any) -> None:
    def kept() -> str:
        [file] = sessions()
        plan: str = json.loads(file.read_text())["plan"]
        return plan

    for step in PLAN:
        use("TaskCreate", {"subject": step, "description": "…"})
    assert kept() == "\n".join(PLAN)
    use("ExitPlanMode", {"plan": "Round once"})
    assert kept() == "Round once"
    use(STEP, {"task_id": task.pk, "action": "failed", "plan": "Round twice"})
    assert kept() == "Round twice"


def test_without_a_server_one_line_says_so(run: Run, repository: Path) -> None:
    command = run("claude", CLOSED, "--space", "my-shop")["UserPromptSubmit"]
    for _ in range(2):
        answer = run_hook(command, prompt(repository, "contextopt done 8 quality 8"))
        assert answer["decision"] == "block"
        assert answer["reason"].startswith(f"Contextopt at {CLOSED} cannot be reached (")
        assert answer["reason"].endswith("). Nothing was stored.")


def test_the_hook_is_removed_with_the_connection(commands: dict[str, str], repository: Path) -> None:
    settings = repository / ".claude/settings.local.json"
    assert STEP in json.loads(settings.read_text())["hooks"]["PostToolUse"][0]["matcher"].split("|")
    call_command("connect", "claude", "--repository", str(repository), "--undo", "--json")
    assert not settings.exists()
