"""Strategies: ways of working that succeeded, stored once, used again, rated, retired."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog
from django.db import transaction
from django.db.models import Count, ExpressionWrapper, FloatField, Q, Sum
from django.db.models.functions import NullIf
from django.utils import timezone

from contextopt.agents.models import Task, TaskState
from contextopt.engine.text.cleaning import cut, flatten_to
from contextopt.engine.text.lexical import detect_language
from contextopt.errors import Conflict
from contextopt.locks import hold_team
from contextopt.people.models import Team
from contextopt.sql import find_one
from memory.memories.models import CONTENT_MAX, NEW_TRUST, REASON_MAX, STRATEGY, TITLE_MAX, Memory, TrustLevel
from memory.memories.rules import MemoryPolicy
from memory.strategies.inputs import FILES_CHANGED_MAX
from memory.strategies.models import StrategyUse, TrustChange

log = structlog.get_logger(__name__)

# With one word more, fewer or different, plans of ten words count as similar; with another step they do not.
SIMILAR_FROM = 0.8


def step_words(steps: Iterable[str]) -> frozenset[str]:
    """Return the words of the steps, ignoring case, order and punctuation."""
    return frozenset(re.findall(r"\w+", " ".join(steps).casefold()))


def overlap(steps: Sequence[str], others: Sequence[str]) -> float:
    """Return the share of words that both have in common (Jaccard), from 0 to 1; 0 if there are no words."""
    words, other_words = step_words(steps), step_words(others)
    together = words | other_words
    return len(words & other_words) / len(together) if together else 0.0


STEP_CHARS = 300
# A new strategy is compared with this many of the latest of its pattern and repository.
STRATEGIES_COMPARED = 200
HINTED_TASK_CHARS = 200
"""The number of characters of a task that a search for strategies uses, and that a strategy keeps."""


@dataclass(frozen=True, slots=True)
class Success:
    """The data that a strategy is made from."""

    task: Task
    pattern: str
    steps: tuple[str, ...]
    quality_score: float
    files_changed: tuple[str, ...]
    model: str
    repository: str

    def content(self) -> str:
        steps = " → ".join(flatten_to(step, STEP_CHARS) for step in self.steps)
        return cut(f'Strategy for "{self.pattern}": {steps}', CONTENT_MAX)

    def payload(self) -> dict[str, Any]:
        return {
            "pattern": self.pattern,
            "steps": list(self.steps),
            "files_changed": list(self.files_changed),
            "model": self.model,
            "quality_score": self.quality_score,
        }


@transaction.atomic
def store_strategy(*, team_id: int, success: Success, actor: str) -> Memory:
    """Add the strategy with the initial trust, or count it as evidence for a similar one.

    The caller holds the team's row, so the second of two similar strategies stored at once finds the first.
    """
    if similar := _find_similar(team_id, success):
        return _merge(similar, success)
    title = flatten_to(success.task.description, TITLE_MAX)
    content = success.content()
    memory = Memory.objects.create(
        team_id=team_id,
        task=success.task,
        title=title,
        content=content,
        memory_type=STRATEGY,
        category=STRATEGY,
        tags=[success.pattern[:100], STRATEGY],
        repository=success.repository,
        trust_level=TrustLevel.AGENT,
        payload=success.payload(),
        language=detect_language(title, content),
        created_by=actor,
    )
    _note_trust(memory, "stored", actor)
    log.info(
        "strategy_stored",
        task_pattern=success.pattern,
        steps_count=len(success.steps),
        quality_score=success.quality_score,
        repository=success.repository,
        memory_id=memory.pk,
    )
    return memory


def _find_similar(team_id: int, success: Success) -> Memory | None:
    """Return the strategy of the same pattern and repository with the most similar steps, if similar enough.

    Retired strategies are found too, so that they do not come back as new ones.
    """
    rows = Memory.objects.strategies().filter(
        team_id=team_id, repository=success.repository, payload__pattern=success.pattern
    )
    rated = [
        (overlap(success.steps, memory.payload.get("steps") or ()), -memory.pk, memory)
        for memory in rows.order_by("-id")[:STRATEGIES_COMPARED]
    ]
    share, _, memory = max(rated, default=(0.0, 0, None), key=lambda each: each[:2])
    return memory if share >= SIMILAR_FROM else None


def _merge(memory: Memory, success: Success) -> Memory:
    """Count the success as further evidence; the strategy's text stays as it was first stored."""
    count = memory.evidence_count
    quality = memory.payload.get("quality_score") or success.quality_score
    files = [*(memory.payload.get("files_changed") or ()), *success.files_changed]
    memory.payload |= {
        "quality_score": round((quality * count + success.quality_score) / (count + 1), 2),
        "files_changed": list(dict.fromkeys(files))[:FILES_CHANGED_MAX],
    }
    memory.evidence_count = count + 1
    # Succeeding again in the same way counts as a use.
    memory.last_accessed_at = timezone.now()
    memory.save(update_fields=["payload", "evidence_count", "last_accessed_at", "updated_at"])
    log.info(
        "strategy_merged",
        memory_id=memory.pk,
        evidence_count=memory.evidence_count,
        task_id=success.task.pk,
        task_pattern=success.pattern,
    )
    return memory


def policy_of(team_id: int) -> MemoryPolicy:
    """Return the team's rules, or the defaults if it has none."""
    return MemoryPolicy.objects.filter(team_id=team_id).first() or MemoryPolicy(team_id=team_id)


def find_strategy(team: Team, memory_id: int) -> Memory:
    """Return the team's strategy, even if retired.

    Raises:
        NotFound: the team has no such strategy.
    """
    rows = Memory.objects.strategies().select_related("task").filter(team=team, pk=memory_id)
    return find_one(rows, f"strategy {memory_id}")


def find_use(team_id: int, use_id: int) -> StrategyUse:
    """Return a use of one of the team's strategies.

    Raises:
        NotFound: the team has no such use.
    """
    rows = StrategyUse.objects.select_related("memory").filter(memory__team_id=team_id, pk=use_id)
    return find_one(rows, f"use {use_id} of a strategy")


@transaction.atomic
def rate_use(*, use: StrategyUse, rating: float | None, actor: str) -> Memory:
    """Rate a use from 0 (it hurt) to 1 (it helped), and update and return the strategy. None takes it back.

    Each active rating moves the trust: `trust += weight × (rating − trust)`, in the order in which the uses
    were first rated, each with the team's weight at that time. So a new rating of a use replaces the old one,
    and repeating a rating changes nothing. The strategy is retired once its trust is below the team's
    threshold and it has as many rated uses as the team requires.

    Raises:
        ValueError: the rating is not from 0 to 1.
        NotFound: the team was deleted in the meantime.
    """
    if rating is not None and not 0 <= rating <= 1:
        raise ValueError("a rating is a number from 0 to 1")
    hold_team(use.memory.team_id)
    memory = Memory.objects.select_for_update(no_key=True).get(pk=use.memory_id)
    current = StrategyUse.objects.select_for_update(no_key=True).get(pk=use.pk)
    if current.rating == rating:
        return memory
    current.rating, current.rated_by, current.rated_at = rating, actor, timezone.now()
    current.save(update_fields=["rating", "rated_by", "rated_at"])
    policy = policy_of(memory.team_id)
    trust, ratings = active_ratings(memory)
    if rating is None:
        ratings.pop(current.pk, None)
    else:
        # A new rating of a use keeps the old one's place; a use's first rating comes last.
        ratings[current.pk] = Rated(rating, policy.rating_weight)
    for rated in ratings.values():
        trust += rated.weight * (rated.rating - trust)
    memory.trust = min(1.0, max(0.0, trust))
    memory.save(update_fields=["trust", "updated_at"])
    reason = "rating taken back" if rating is None else f"rated {rating:g}"
    _note_trust(memory, reason, actor, use=current, rating=rating, weight=policy.rating_weight)
    _retire_if_it_hurts(memory, policy, len(ratings))
    return memory


class Rated(NamedTuple):
    """An active rating, from 0 to 1, and the share of the way to it that the trust moves."""

    rating: float
    weight: float


def active_ratings(memory: Memory) -> tuple[float, dict[int, Rated]]:
    """Return the strategy's starting trust, and the ratings since then by use, in order.

    A reinstated strategy starts anew: earlier ratings do not count again.
    """
    changes = TrustChange.objects.filter(memory=memory)
    begun = changes.filter(weight=None).order_by("-id").first()
    ratings: dict[int, Rated] = {}
    since = changes.filter(pk__gt=begun.pk if begun else 0).order_by("id")
    for change, use, rating, weight in since.values_list("pk", "use_id", "rating", "weight"):
        # Ratings of deleted uses still count.
        key = use or -change
        if rating is None:
            ratings.pop(key, None)
        elif weight is not None:
            ratings[key] = Rated(rating, weight)
    return begun.trust if begun else NEW_TRUST, ratings


def note_outcome(*, memory_id: int, has_succeeded: bool, reason: str, actor: str) -> None:
    """Move the strategy's trust like a rating of 1 or 0, but permanently: no vote takes it back."""
    memory = Memory.objects.select_for_update(no_key=True).get(pk=memory_id)
    policy, outcome = policy_of(memory.team_id), float(has_succeeded)
    memory.trust = min(1.0, max(0.0, memory.trust + policy.rating_weight * (outcome - memory.trust)))
    memory.save(update_fields=["trust", "updated_at"])
    _note_trust(memory, reason, actor, rating=outcome, weight=policy.rating_weight)
    _retire_if_it_hurts(memory, policy, len(active_ratings(memory)[1]))


def _retire_if_it_hurts(memory: Memory, policy: MemoryPolicy, rated_uses: int) -> None:
    if memory.retired_at is not None or memory.trust >= policy.retire_below:
        return
    if rated_uses >= policy.retire_after:
        _retire(memory, f"its trust fell to {memory.trust:.2f} after {rated_uses} rated uses")


@transaction.atomic
def retire_strategy(*, memory: Memory, reason: str, actor: str) -> Memory:
    """Remove the strategy from all hints and searches. Idempotent."""
    current = Memory.objects.select_for_update(no_key=True).get(pk=memory.pk)
    if current.retired_at is None:
        _retire(current, f"{reason} ({actor})")
    return current


def _retire(memory: Memory, reason: str) -> None:
    memory.retired_at, memory.retired_reason = timezone.now(), reason[:REASON_MAX]
    memory.save(update_fields=["retired_at", "retired_reason", "updated_at"])
    log.info("strategy_retired", memory_id=memory.pk, reason=memory.retired_reason, trust=memory.trust)


@transaction.atomic
def reinstate_strategy(*, memory: Memory, actor: str) -> Memory:
    """Let a retired strategy be found again, with at least the trust of a new one.

    Raises:
        Conflict: it is not retired.
    """
    current = Memory.objects.select_for_update(no_key=True).get(pk=memory.pk)
    if current.retired_at is None:
        raise Conflict(f"Strategy {current.pk} is not retired.")
    current.retired_at, current.retired_reason = None, ""
    current.trust = max(current.trust, NEW_TRUST)
    current.save(update_fields=["retired_at", "retired_reason", "trust", "updated_at"])
    _note_trust(current, "reinstated", actor)
    return current


# The tasks that used a strategy and have ended, and those of them that were completed. Each counts once.
ENDED = Count("task", distinct=True, filter=~Q(task__state=TaskState.OPEN))
COMPLETED = Count("task", distinct=True, filter=Q(task__state=TaskState.COMPLETED))
# The mean of a strategy's ratings and of the outcomes of its tasks, 0 to 1; none without any.
SUCCESS = ExpressionWrapper(
    (Sum("rating", default=0.0) + COMPLETED) / NullIf(Count("rating") + ENDED, 0),
    output_field=FloatField(),
)


def success_rates(memories: list[Memory]) -> dict[int, float | None]:
    """Return the success of each strategy; None if no use was rated and no task that used it has ended."""
    rows = StrategyUse.objects.filter(memory__in=memories).values("memory_id").annotate(mean=SUCCESS)
    return {row["memory_id"]: row["mean"] for row in rows}


def _note_trust(
    memory: Memory,
    reason: str,
    actor: str,
    *,
    use: StrategyUse | None = None,
    rating: float | None = None,
    weight: float | None = None,
) -> None:
    TrustChange.objects.create(
        memory=memory,
        use=use,
        trust=memory.trust,
        rating=rating,
        weight=weight,
        reason=reason[:REASON_MAX],
        changed_by=actor,
    )
