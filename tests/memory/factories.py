"""Makes memories with the product's own functions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

from contextopt.people.models import Team
from contextopt.spaces.models import Space
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.votes import give_feedback
from memory.memories.inputs import MemoryIn
from memory.memories.memories import create_memory
from memory.memories.models import Memory
from memory.review.models import ReviewItem
from memory.review.queue import refresh_assembly
from memory.strategies.inputs import CompletionIn
from memory.strategies.models import StrategyUse
from memory.strategies.reports import complete_task
from tests import factories


def make_memory(team: Team, **overrides: Any) -> Memory:
    data = {"content": "Prices are decimals, never floats.", "tags": ["money"]}
    return create_memory(team=team, data=MemoryIn(**{**data, **overrides}), actor="test")


def make_strategy(team: Team, **overrides: Any) -> Memory:
    """Complete a task well enough that its plan becomes a strategy."""
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
        **{"memory": strategy, "match_score": 0.8, "similarity": 0.8, "asked": "Fix it", **overrides}
    )


def make_review(space: Space, **overrides: Any) -> ReviewItem:
    """Assemble a context, downvote it, and queue it for review."""
    assembly = factories.make_assembly(space, **overrides)
    subject, opinion = SubjectIn(assembly_id=assembly.id), OpinionIn(rating="down", reason="outdated")
    give_feedback(team=space.team, subject=subject, opinion=opinion, rater="rater:a")
    refresh_assembly(team_id=space.team_id, assembly_id=assembly.id)
    return ReviewItem.objects.get(assembly=assembly.id)


@contextmanager
def no_memory_can_be_stored() -> Iterator[None]:
    """Make the database refuse every memory for a while."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE memory_memory ADD CONSTRAINT refused CHECK (false) NOT VALID")
        yield
        cursor.execute("ALTER TABLE memory_memory DROP CONSTRAINT refused")
