"""Turns votes on an answer into ratings of the strategies it was made with."""

from django.db import transaction
from django.db.models import Avg, Case, FloatField, Q, Value, When

from contextopt.limits import ACTOR_MAX
from contextopt.locks import hold_team, unless_deleted
from contextopt.models import Assembly
from memory.feedback.models import Rating, Vote
from memory.strategies.credits import lock_strategies
from memory.strategies.models import StrategyUse
from memory.strategies.strategies import rate_use

USES_MAX = 50


def rate_strategies(*, team_id: int, assembly_id: int, rater: str) -> None:
    """Rate the strategies that an answer was made with by the share of the votes that are up: on it, and on
    all other contexts of its task.

    Each use has one rating, which follows the votes and is taken back with the last of them. Call this in the
    vote's transaction, so that a stored vote always shows in the ratings.
    """
    with unless_deleted(), transaction.atomic():
        hold_team(team_id)
        uses = uses_of(team_id, assembly_id)
        # A transaction that waits here counts the votes afterwards, so the last to write sees all of them.
        lock_strategies({use.memory_id for use in uses})
        for use in uses:
            rate_use(use=use, rating=_share_up(team_id, use), actor=rater[:ACTOR_MAX])


def _share_up(team_id: int, use: StrategyUse) -> float | None:
    """Return the share of the votes that are up; None without votes."""
    contexts = Q(pk=use.assembly_id) | Q(task__isnull=False, task=use.task_id)
    votes = Vote.objects.filter(team_id=team_id, assembly__in=Assembly.objects.filter(contexts))
    is_up = Case(When(rating=Rating.UP, then=Value(1.0)), default=Value(0.0), output_field=FloatField())
    share: float | None = votes.aggregate(mean=Avg(is_up))["mean"]
    return share


def uses_of(team_id: int, assembly_id: int) -> list[StrategyUse]:
    """Return the uses of strategies in an assembly, or in the task that the assembly was made for."""
    task_id = Assembly.objects.filter(pk=assembly_id).values_list("task_id", flat=True).first()
    named = Q(assembly_id=assembly_id) | Q(task__isnull=False, task=task_id)
    return list(
        StrategyUse.objects.select_related("memory")
        .filter(named, memory__team_id=team_id)
        .order_by("memory_id", "id")[:USES_MAX]
    )
