"""detect_task_pattern, complete_task and strategy_hint as a shell sees them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from contextopt.agents.models import Task
from contextopt.people.models import Team
from memory.memories.models import Memory
from tests.commands import Run
from tests.factories import make_task
from tests.gitrepos import make_git
from tests.memory.factories import no_memory_can_be_stored

REPORT = {
    "repository": "shop", "description": "Fix the rounding error of prices in the cart",
    "plan": "Test\nRound",
    "attempts": [{"step_index": 0, "action": "test", "result": "success", "error": None}],
    "total_attempts": 1, "quality_score": 8, "files_changed": ["cart.py"], "model": "m",
    "decisions": ["Half even"],
    "error_patterns": ["Floats"],
}  # fmt: skip


def test_a_pattern_as_json_and_in_words(run: Run) -> None:
    assert run("detect_task_pattern", "--task", "FIX the BUG in Auth") == (0, "fix bug\n", "")
    code, out, _ = run("detect_task_pattern", "--task", "", "--json")
    assert (code, json.loads(out)) == (0, {"pattern": "general task"})


def test_many_patterns_one_line_each(run: Run, tmp_path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(
        '{"id": "a", "task": "Rapid prototyping inside Docker"}\n{"id": 2}\n{"id": 3, "task": "Fix it"}\n'
    )
    code, out, err = run("detect_task_pattern", "--tasks", path, "--json")
    assert code == 1
    assert [json.loads(line) for line in out.splitlines()] == [
        {"id": "a", "pattern": "rapid prototyping inside"},
        {"id": 3, "pattern": "fix bug"},
    ]
    assert "task" in err
    assert run("detect_task_pattern")[0] == 2


def test_a_completion_is_told_and_stored_once(run: Run, write) -> None:
    path = write(REPORT)
    code, out, _ = run("complete_task", path, "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["task_id"] == Task.objects.get().pk
    assert answer["completed_at"].endswith("Z")
    assert answer["strategy_id"] == answer["stored"][0]["id"]
    assert answer["not_stored"] == []
    code, out, _ = run("complete_task", path)
    assert "already recorded" in out
    assert Memory.objects.count() == 3


def test_a_task_by_its_external_id(run: Run, write) -> None:
    task = make_task(Team.objects.ensure_default(), external_id="T-1")
    code, out, _ = run("agent_context", "T-1", "--json")
    assert (code, json.loads(out)["task_id"]) == (0, task.pk)
    code, out, _ = run("complete_task", write({**REPORT, "task_id": "T-1"}), "--json")
    assert (code, json.loads(out)["task_id"]) == (0, task.pk)
    code, _, err = run("complete_task", write({**REPORT, "task_id": "T-2"}))
    assert (code, "task_id: there is no task 'T-2'" in err) == (2, True)


def test_a_completion_that_cannot_be_read(run: Run, write) -> None:
    code, out, err = run("complete_task", write({**REPORT, "quality_score": 12}))
    assert (code, out) == (2, "")
    assert "quality_score" in err
    assert run("complete_task", write("{"))[0] == 2
    assert run("complete_task", "missing.json")[0] == 2


def test_what_could_not_be_learned_yet_is_exit_1(run: Run, write) -> None:
    with no_memory_can_be_stored():
        code, out, _ = run("complete_task", write(REPORT))
    assert code == 1
    assert "will be retried" in out
    assert Task.objects.get().state == "completed"


def test_a_hint_as_json_and_in_words(run: Run, write) -> None:
    run("complete_task", write(REPORT))
    task = "Fix wrong rounding of the prices in the shopping cart"
    code, out, _ = run("strategy_hint", "--task", task, "--repository", "shop", "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["hint"].startswith("[STRATEGY HINT ")
    assert answer["memory_id"] == Memory.objects.get(memory_type="strategy").pk
    code, out, _ = run("strategy_hint", "--task", task, "--repository", "web")
    assert (code, out) == (0, "No similar strategy.\n")
    assert run("strategy_hint", "--task", " ")[0] == 2


def test_a_step_of_a_new_task_and_of_a_stored_one(
    run: Run, write: Callable[[object], Path], tmp_path: Path
) -> None:
    folder = make_git(tmp_path / "shop")
    assert run("index_repo", folder)[0] == 0
    code, out, err = run(
        "agent_context", "--task", "Round prices", "--repository", folder, "--phase", "building", "--json"
    )
    answer = json.loads(out)
    assert (code, err, answer["repository"]) == (0, "", "shop")
    assert "### shop/prices.py" in answer["text"]
    assert answer["certificate"]["tokens"] == sum(section["tokens"] for section in answer["sections"])
    assert {"name", "tokens", "kept", "dropped"} <= answer["sections"][0].keys()
    failure = {"diagnosis": {"root_cause": "implementation_error"}, "error": "assert 1 == 2"}
    code, out, _ = run("agent_context", answer["task_id"], "--failure", write(failure), "--phase", "building")
    assert code == 0
    assert "## Latest error\n> assert 1 == 2\n" in out
    assert "retry" in out
    assert f"Task {answer['task_id']}, phase building, logged as assembly" in out


def test_a_step_with_the_agents_own_context(run: Run, write: Callable[[object], Path]) -> None:
    context = write({"tree": "a\n" * 900, "memories": ["Use the pool."]})
    code, out, _ = run("agent_context", "--task", "x", "--phase", "diagnosis", "--file", context, "--json")
    answer = json.loads(out)
    assert (code, answer["text"]) == (0, "## Memories\n> Use the pool.\n")
    assert answer["saved_tokens"] == answer["full_tokens"] - answer["certificate"]["tokens"] > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--task: give TASK, or use --task for a new one"),
        (["seven"], "TASK: "),
        (["7"], "TASK: there is no task '7'"),
        (["--task", "x", "--phase", "dreaming"], "phase: there is no phase 'dreaming'"),
        (["--task", "x", "--repository", "nowhere"], "There is no repository 'nowhere'."),
        (["--task", "x", "--space", "nowhere"], "There is no space 'nowhere'."),
        (["--task", "x", "--as-of", "soon"], "--as-of: "),
        (["--task", "x", "--budget", "-1"], "--budget: "),
        (["--task", "x", "--file", "gone.json"], "gone.json"),
    ],
)
def test_a_step_that_cannot_be_built(run: Run, arguments: list[str], words: str) -> None:
    code, out, err = run("agent_context", *arguments, "--json")
    assert (code, out) == (2, "")
    assert words in err
    assert not Task.objects.exists()
