"""Memories made by the product's own way in."""

from typing import Any

from contextopt.completing import complete_task
from contextopt.completioninputs import CompletionIn
from contextopt.models import Team
from memory.inputs import MemoryIn
from memory.models import Memory, StrategyUse
from memory.storing import create_memory


def make_memory(team: Team, **overrides: Any) -> Memory:
    data = {"content": "Prices are decimals, never floats.", "tags": ["money"]}
    return create_memory(team=team, data=MemoryIn(**{**data, **overrides}), actor="test")


def make_strategy(team: Team, **overrides: Any) -> Memory:
    """Complete a task so well that its plan becomes a strategy."""
    data = {
        "description": "Fix the rounding error of prices in the cart",
        "repository": "shop",
        "plan": "Write a failing test\nRound at the last step\nRun all tests",
        "quality_score": 9,
    }
    result = complete_task(team=team, data=CompletionIn(**{**data, **overrides}), actor="test")
    assert result.completion.learned is not None
    return Memory.objects.get(pk=result.completion.learned["strategy_id"])


def make_use(strategy: Memory, **overrides: Any) -> StrategyUse:
    return StrategyUse.objects.create(
        **{"memory": strategy, "similarity": 0.8, "asked": "Fix it", **overrides}
    )
