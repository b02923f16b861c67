"""Fixtures for the tests of memory."""

from typing import Any

import pytest

from contextopt.people.models import Team
from memory.memories.models import Memory
from memory.strategies.inputs import CompletionIn
from memory.strategies.models import StrategyUse
from memory.strategies.reports import CompletionResult, complete_task
from tests.contextopt.api.conftest import Caller, api, nobody, reader, stranger, writer
from tests.memory.factories import make_strategy, make_use

__all__ = ["Caller", "api", "nobody", "reader", "stranger", "writer"]


@pytest.fixture
def strategy(team: Team) -> Memory:
    return make_strategy(team)


@pytest.fixture
def use(strategy: Memory) -> StrategyUse:
    return make_use(strategy)


@pytest.fixture
def complete(team: Team):
    """Complete a task of the team: `complete(quality_score=6)`."""

    def run(**overrides: Any) -> CompletionResult:
        return complete_task(team=team, data=CompletionIn(**{**REPORT, **overrides}), actor="test")

    return run


REPORT: dict[str, Any] = {
    "description": "Fix the rounding error of prices in the cart",
    "repository": "shop",
    "plan": "Write a failing test\nRound at the last step\n\nRun all tests",
    "attempts": [{"step_index": 0, "action": "write", "result": "success"}],
    "total_attempts": 1,
    "quality_score": 8,
    "files_changed": ["cart.py"],
    "model": "m",
}
