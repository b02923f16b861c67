"""Tasks that used a strategy: their savings, the cost of their failures, and how they keep it fresh."""

from typing import Any

import pytest

from contextopt.assemblies.models import Assembly
from contextopt.errors import Conflict
from contextopt.people.models import Team
from memory.memories.inputs import HintIn
from memory.memories.models import Memory
from memory.memories.rules import MemoryPolicy
from memory.steps.inputs import AgentStepIn
from memory.steps.step import build_step
from memory.strategies.credits import measure_tasks, savings
from memory.strategies.hints import give_hint
from memory.strategies.inputs import CompletionIn
from memory.strategies.models import StrategyUse, TrustChange
from memory.strategies.reports import complete_task
from memory.strategies.strategies import rate_use, success_rates
from tests import factories
from tests.concurrency import at_once
from tests.memory.factories import make_strategy, make_use

FIX = "Fix the rounding error of prices in the cart"
OTHER_PLAN = "Read the log\nFind the slow query\nAdd an index"


def end_task(complete: Any, team: Team, *, size: int, used: Memory | None = None, **report: Any) -> int:
    """End a task for which a hand-off of about `size` words was logged; return the tokens measured for it."""
    task = factories.make_task(team, description=FIX, repository="shop")
    content = {"description": "word " * size}
    factories.make_finding(task, tags=["critical"], content=content)
    factories.make_advance(task)
    if used:
        # Requesting the same hint twice still counts as one use by one task.
        make_use(used, task=task)
        make_use(used, task=task)
    complete(**{"task_id": task.pk, "description": "", "plan": OTHER_PLAN, **report})
    return measure_tasks([task.pk])[task.pk]


@pytest.mark.parametrize("is_used_first", [True, False])
def test_a_strategy_saves_the_difference_to_similar_tasks_without_it(
    complete, team: Team, strategy: Memory, is_used_first: bool
) -> None:
    tokens = {}
    for used, size in ((True, 100), (False, 400)) if is_used_first else ((False, 400), (True, 100)):
        strategy.refresh_from_db()
        assert strategy.tokens_saved is None
        tokens[used] = end_task(complete, team, size=size, used=strategy if used else None)
    strategy.refresh_from_db()
    assert strategy.tokens_saved == tokens[False] - tokens[True] > 250
    uses = StrategyUse.objects.filter(memory=strategy).order_by("id")
    assert [use.tokens_saved for use in uses] == [strategy.tokens_saved, None]


def test_a_strategy_that_costs_more_says_so(complete, team: Team, strategy: Memory) -> None:
    without = [end_task(complete, team, size=size) for size in (100, 201)]
    used = [end_task(complete, team, size=500, used=strategy) for _ in range(2)]
    strategy.refresh_from_db()
    assert strategy.tokens_saved == sum(round(sum(without) / 2 - tokens) for tokens in used) < -600


def test_a_failed_task_with_retries_credits_nothing(complete, team: Team, strategy: Memory) -> None:
    end_task(complete, team, size=400)
    task = factories.make_task(team, description=FIX, repository="shop")
    make_use(strategy, task=task)
    for _ in range(4):
        factories.make_attempt(task, context={"files": {"cart.py": "price = 1\n" * 500}})
    complete(task_id=task.pk, description="", outcome="failed", quality_score=2, tokens_saved=9_000)
    strategy.refresh_from_db()
    assert strategy.tokens_saved is None


def test_a_task_with_agent_contexts_is_not_compared_with_one_without(
    complete, team: Team, strategy: Memory
) -> None:
    task = factories.make_task(team, description=FIX, repository="shop")
    build_step(team=team, data=AgentStepIn(task_id=task.pk, phase="reviewing"), actor="test")
    assert measure_tasks([task.pk])
    complete(task_id=task.pk, description="", plan=OTHER_PLAN)
    end_task(complete, team, size=10, used=strategy)
    strategy.refresh_from_db()
    assert strategy.tokens_saved is None


@pytest.mark.parametrize(
    "unlike", [{"description": "Write the README"}, {"repository": "web"}, {"outcome": "failed"}]
)
def test_unlike_tasks_are_not_compared(
    complete, team: Team, strategy: Memory, unlike: dict[str, Any]
) -> None:
    other = dict(unlike)
    outcome = other.pop("outcome", "completed")
    task = factories.make_task(team, **{"description": FIX, "repository": "shop", **other})
    factories.make_attempt(task)
    complete(task_id=task.pk, description="", repository="", outcome=outcome)
    end_task(complete, team, size=100, used=strategy)
    strategy.refresh_from_db()
    assert strategy.tokens_saved is None


def test_tasks_of_other_teams_are_not_compared(complete, team: Team, other_team: Team) -> None:
    theirs = factories.make_task(other_team, description=FIX, repository="shop")
    factories.make_attempt(theirs)
    report = CompletionIn(task_id=theirs.pk, quality_score=9)
    complete_task(team=other_team, data=report, actor="test")
    strategy = make_strategy(team)
    end_task(complete, team, size=100, used=strategy)
    strategy.refresh_from_db()
    assert strategy.tokens_saved is None


def test_savings_need_both_sorts() -> None:
    assert savings({1: 10, 2: 30}, {1}) == {1: 20}
    assert savings({1: 10}, {1}) == savings({}, {1}) == savings({1: 10}, set()) == {}
    assert savings({1: 10}, {2}) == {}


@pytest.mark.parametrize("report", [{"outcome": "failed"}, {"quality_score": 6.5}, {"total_attempts": 2}])
def test_a_use_that_failed_lowers_the_trust_once(
    complete, team: Team, strategy: Memory, report: dict
) -> None:
    end_task(complete, team, size=10, used=strategy, **report)
    strategy.refresh_from_db()
    assert strategy.trust == pytest.approx(0.35)
    assert TrustChange.objects.filter(memory=strategy).latest("id").reason.startswith("task ")
    # Votes and ratings of a use are added on top; taking them back doesn't undo the failure.
    use = StrategyUse.objects.filter(memory=strategy).first()
    assert use is not None
    assert rate_use(use=use, rating=1, actor="test").trust == pytest.approx(0.545)
    assert rate_use(use=use, rating=None, actor="test").trust == pytest.approx(0.35)


def test_a_use_that_succeeded_raises_the_trust_once(complete, team: Team, strategy: Memory) -> None:
    end_task(complete, team, size=10, used=strategy)
    strategy.refresh_from_db()
    assert strategy.trust == pytest.approx(0.65)
    change = TrustChange.objects.filter(memory=strategy).latest("id")
    assert change.reason.endswith(": it succeeded")
    assert strategy.last_accessed_at is not None


def test_success_counts_outcomes_and_ratings(complete, team: Team, strategy: Memory) -> None:
    assert success_rates([strategy]) == {}
    make_use(strategy, task=factories.make_task(team))
    assert success_rates([strategy]) == {strategy.pk: None}
    for outcome in ("completed", "failed", "impossible"):
        end_task(complete, team, size=10, used=strategy, outcome=outcome)
    # A task that took two attempts was completed nevertheless.
    end_task(complete, team, size=10, used=strategy, total_attempts=2)
    # Each task had the hint twice, and counts once.
    assert success_rates([strategy]) == {strategy.pk: 0.5}
    use = StrategyUse.objects.filter(memory=strategy).latest("id")
    rate_use(use=use, rating=1, actor="test")
    assert success_rates([strategy]) == {strategy.pk: pytest.approx(0.6)}


def test_a_task_that_an_attempt_found_impossible_counts(complete, team: Team, strategy: Memory) -> None:
    task = factories.make_task(team, description=FIX, repository="shop")
    make_use(strategy, task=task)
    factories.make_attempt(task, diagnosis={"root_cause": "impossible_task"})
    task.refresh_from_db()
    assert task.state == "impossible"
    assert success_rates([strategy]) == {strategy.pk: 0}
    for outcome in ("completed", "failed"):
        with pytest.raises(Conflict, match="already impossible"):
            complete(task_id=task.pk, description="", outcome=outcome)
    # Its report can follow, once.
    report = complete(task_id=task.pk, description="", outcome="impossible", quality_score=None)
    assert (report.is_new, report.to_json()["quality_score"]) == (True, None)
    with pytest.raises(Conflict, match="already impossible"):
        complete(task_id=task.pk, description="", outcome="impossible", quality_score=1)
    strategy.refresh_from_db()
    assert strategy.trust < 0.5
    assert success_rates([strategy]) == {strategy.pk: 0}


def test_failures_retire_a_strategy(complete, team: Team, strategy: Memory) -> None:
    MemoryPolicy.objects.create(team=team, retire_after=2)
    for _ in range(2):
        end_task(complete, team, size=10, used=strategy, outcome="failed")
    strategy.refresh_from_db()
    assert strategy.retired_at is not None


def test_like_strategies_merge(team: Team) -> None:
    first = make_strategy(team, files_changed=["cart.py"])
    again = make_strategy(
        team,
        plan="write a failing test!\nRound at the last step.\nRun all tests",
        quality_score=7,
        files_changed=["a.py"],
    )
    assert again.pk == first.pk
    assert (again.evidence_count, again.content) == (2, first.content)
    assert again.payload["quality_score"] == 8
    assert again.payload["files_changed"] == ["cart.py", "a.py"]
    assert again.last_accessed_at is not None
    assert make_strategy(team, quality_score=8).evidence_count == 3
    assert Memory.objects.strategies().count() == 1


@pytest.mark.parametrize(
    "other",
    [{"plan": OTHER_PLAN}, {"repository": "web"}, {"description": "Write the README of prices"}],
)
def test_unlike_strategies_stay_apart(team: Team, strategy: Memory, other: dict[str, Any]) -> None:
    assert make_strategy(team, **other).pk != strategy.pk
    strategy.refresh_from_db()
    assert strategy.evidence_count == 1


def test_strategies_of_other_teams_do_not_merge(strategy: Memory, other_team: Team) -> None:
    assert make_strategy(other_team).pk != strategy.pk


def test_a_retired_strategy_does_not_come_back_under_another_number(team: Team, strategy: Memory) -> None:
    MemoryPolicy.objects.create(team=team, retire_after=1, rating_weight=0.9)
    rate_use(use=make_use(strategy), rating=0, actor="test")
    again = make_strategy(team, quality_score=10)
    assert (again.pk, again.evidence_count) == (strategy.pk, 2)
    assert again.retired_at is not None


@pytest.mark.django_db(transaction=True)
def test_of_like_strategies_learned_at_once_one_is_kept() -> None:
    team = factories.make_team()
    learned = at_once(*[lambda n=n: make_strategy(team, quality_score=7 + n / 10) for n in range(4)])
    assert len({memory.pk for memory in learned}) == 1
    assert Memory.objects.get().evidence_count == 4


def test_everything_sent_for_a_task_counts(team: Team, strategy: Memory) -> None:
    task = factories.make_task(team, description=FIX, repository="shop")
    factories.make_attempt(task)
    factories.make_filtering(team, task_id=task.pk)
    give_hint(team=team, data=HintIn(task=FIX, repository="shop", task_id=task.pk), actor="test")
    rows = Assembly.objects.filter(task=task)
    assert {row.kind for row in rows} == {"retry", "phase", "hint"}
    assert measure_tasks([task.pk]) == {task.pk: sum(row.tokens_after for row in rows)}


def test_tasks_with_logged_contexts_are_not_compared_with_those_without(
    complete, team: Team, strategy: Memory
) -> None:
    end_task(complete, team, size=400)
    task = factories.make_task(team, description=FIX, repository="shop")
    factories.make_filtering(team, task_id=task.pk)
    make_use(strategy, task=task)
    complete(task_id=task.pk, description="", plan=OTHER_PLAN)
    strategy.refresh_from_db()
    assert strategy.tokens_saved is None
    other = factories.make_task(team, description=FIX, repository="shop")
    factories.make_filtering(team, "planning", task_id=other.pk)
    complete(task_id=other.pk, description="", plan=OTHER_PLAN)
    strategy.refresh_from_db()
    tokens = measure_tasks([task.pk, other.pk])
    assert strategy.tokens_saved == tokens[other.pk] - tokens[task.pk] > 0
