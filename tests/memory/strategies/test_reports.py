"""Ended tasks: their state, the memories they leave, and failures to learn."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone
from pydantic import ValidationError
from structlog.testing import capture_logs

from contextopt.agents.completions import Completion
from contextopt.agents.models import Task, TaskState
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.people.models import Team
from memory.memories.models import Memory
from memory.strategies import reports
from memory.strategies.inputs import CompletionIn
from memory.strategies.models import TrustChange
from memory.strategies.reports import learn_pending
from tests import factories
from tests.memory.conftest import REPORT
from tests.memory.factories import no_memory_can_be_stored


def test_a_task_is_recorded_and_a_strategy_stored(complete, team: Team) -> None:
    with capture_logs() as events:
        result = complete(
            decisions=["Round half even"], error_patterns=[{"error": "7.005", "cure": "decimals"}]
        )
    task = Task.objects.get()
    assert (task.state, task.quality_score, task.repository) == (TaskState.COMPLETED, 8, "shop")
    assert task.completed_at is not None
    strategy, decision, error = Memory.objects.order_by("id")
    assert strategy.content == (
        'Strategy for "fix bug": Write a failing test → Round at the last step → Run all tests'
    )
    assert (strategy.memory_type, strategy.category, strategy.trust_level) == (
        "strategy",
        "strategy",
        "agent",
    )
    assert strategy.tags == ["fix bug", "strategy"]
    assert strategy.payload["files_changed"] == ["cart.py"]
    assert strategy.payload["steps"] == ["Write a failing test", "Round at the last step", "Run all tests"]
    assert {memory.task_id for memory in (strategy, decision, error)} == {task.pk}
    assert error.content == "error: 7.005\ncure: decimals"
    answer = result.to_json()
    assert [each["memory_type"] for each in answer["stored"]] == ["strategy", "decision", "error_pattern"]
    assert answer["strategy_id"] == strategy.pk
    event = next(event for event in events if event["event"] == "strategy_stored")
    assert {name: event[name] for name in ("task_pattern", "steps_count", "quality_score", "repository")} == {
        "task_pattern": "fix bug", "steps_count": 3, "quality_score": 8.0, "repository": "shop",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"total_attempts": 2}, "2 attempts"),
        ({"quality_score": 6.9}, "quality was 6.9"),
        ({"plan": " \n"}, "no step of its plan"),
        ({"plan": None}, "no step of its plan"),
        ({"outcome": "failed"}, "failed"),
        (
            {"plan": "One", "attempts": [{"step_index": 0, "action": "x", "result": "failed"}]},
            "no step of its plan",
        ),
    ],
)
def test_why_there_is_no_strategy(complete, overrides: dict, reason: str) -> None:
    answer = complete(**overrides).to_json()
    assert answer["strategy_id"] is None
    assert reason in answer["not_stored"][0]["reason"]
    assert not Memory.objects.exists()


def test_attempts_that_the_server_recorded_cannot_be_reported_away(complete, team: Team) -> None:
    task = factories.make_task(team)
    for _ in range(3):
        factories.make_attempt(task)
    answer = complete(task_id=task.pk, description="", total_attempts=1).to_json()
    assert answer["strategy_id"] is None
    assert "it took 4 attempts" in answer["not_stored"][0]["reason"]
    assert not Memory.objects.exists()


def test_a_task_without_recorded_attempts_may_still_be_reported_to_have_had_some(
    complete, team: Team
) -> None:
    task = factories.make_task(team)
    answer = complete(task_id=task.pk, description="", total_attempts=3).to_json()
    assert "it took 3 attempts" in answer["not_stored"][0]["reason"]


@pytest.mark.parametrize(
    ("results", "attempts"),
    [(("failed", "failed", "success"), 3), (("success", "failed"), 2), (("failed", "failed"), 2)],
)
def test_steps_that_were_tried_again_decide_without_a_stored_task(
    complete, results: tuple[str, ...], attempts: int
) -> None:
    steps = [{"step_index": 0, "action": "write", "result": result} for result in results]
    answer = complete(attempts=steps, total_attempts=1).to_json()
    assert answer["strategy_id"] is None
    assert f"it took {attempts} attempts" in answer["not_stored"][0]["reason"]


def test_a_step_that_failed_and_was_left_is_no_further_attempt(complete) -> None:
    steps = [{"step_index": 0, "result": "failed"}, {"step_index": 1, "result": "ok"}, {"step_index": 1}]
    complete(attempts=steps)
    assert Memory.objects.get().payload["steps"] == ["Round at the last step", "Run all tests"]


def test_the_same_report_twice_stores_once(complete) -> None:
    first, again = complete(), complete()
    assert (first.is_new, again.is_new) == (True, False)
    assert first.to_json() == {**again.to_json(), "is_new": True}
    assert Memory.objects.count() == Task.objects.count() == Completion.objects.count() == 1


def test_a_recurring_task_counts_each_day(complete, team: Team) -> None:
    task = factories.make_task(team)
    complete(task_id=task.pk)
    start = timezone.now()
    results = []
    for hours in (0, 23, 25, 48, 50):
        with time_machine.travel(start + timedelta(hours=hours), tick=False):
            results.append(complete())
    assert [result.is_new for result in results] == [True, False, True, False, True]
    assert Memory.objects.get().evidence_count == 4
    with time_machine.travel(start + timedelta(days=30)):
        assert not complete(task_id=task.pk).is_new


def test_a_report_stored_without_a_day_is_known_for_a_day(complete) -> None:
    stored = complete()
    Completion.objects.update(sha256=CompletionIn(**stored.completion.report).digest())
    assert complete().completion == stored.completion
    with time_machine.travel(timezone.now() + timedelta(hours=25)):
        assert complete().is_new


def test_an_open_task_is_ended_once(complete, team: Team) -> None:
    task = factories.make_task(team, repository="web")
    result = complete(task_id=task.pk, description="", repository="")
    assert result.completion.task_id == task.pk
    assert Memory.objects.get().repository == "web"
    with pytest.raises(Conflict, match="is already completed"):
        complete(task_id=task.pk, quality_score=3)


def test_what_cannot_be_completed(complete, other_team: Team) -> None:
    with pytest.raises(InvalidInput, match="description"):
        complete(description=" ")
    with pytest.raises(NotFound):
        complete(task_id=factories.make_task(other_team).pk)
    assert not Completion.objects.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"quality_score": 11}, {"quality_score": None}, {"total_attempts": 0}, {"decisions": ["x" * 10_001]},
        {"attempts": [{"step_index": -1}]}, {"decisions": [" "]}, {"unknown": 1}, {"plan": "\x00"},
    ],
)  # fmt: skip
def test_reports_that_are_refused(wrong: dict) -> None:
    with pytest.raises(ValidationError):
        CompletionIn.model_validate({**REPORT, **wrong})


def test_a_failure_to_store_fails_no_completion_and_is_made_good(complete) -> None:
    with no_memory_can_be_stored(), capture_logs() as events:
        result = complete()
    assert [event["event"] for event in events if event["log_level"] == "warning"] == [
        "strategy_store_failed"
    ]
    assert result.completion.task.state == TaskState.COMPLETED
    assert result.to_json()["is_pending"]
    assert not Memory.objects.exists()
    assert Completion.objects.get().tries == 1

    assert learn_pending() == 1
    assert learn_pending() == 0
    assert Memory.objects.count() == 1
    assert complete().to_json()["strategy_id"] == Memory.objects.get().pk


def test_what_is_refused_again_and_again_is_left(complete) -> None:
    with no_memory_can_be_stored():
        complete()
    Completion.objects.update(tries=reports.LEARN_TRIES_MAX)
    assert learn_pending() == 0


def test_a_strategy_begins_with_the_trust_of_all(strategy: Memory) -> None:
    assert [change.trust for change in TrustChange.objects.all()] == [strategy.trust] == [0.5]
