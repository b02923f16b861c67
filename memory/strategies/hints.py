"""Hints: the strategy that a task about to be planned is most like, fenced as inspiration."""

from dataclasses import dataclass
from typing import Any

import structlog
from django.db import DatabaseError, transaction
from django.db.models import F

from contextopt.engine.text.fences import STRATEGY_HINT, fence
from contextopt.errors import ContextoptError, InvalidInput, ServiceUnavailable
from contextopt.models import Assembly, Task, Team
from contextopt.search.hybrid import prepare_query, search
from contextopt.search.registry import SearchFilters
from contextopt.search.vectors.fill import ensure_embedded
from memory.memories.inputs import HintIn
from memory.memories.memories import SEARCHABLE
from memory.memories.models import STRATEGY, Memory
from memory.strategies.models import StrategyUse
from memory.strategies.strategies import HINTED_TASK_CHARS, policy_of

log = structlog.get_logger(__name__)

STRATEGIES_LOOKED_AT = 2
SIMILARITY_NEEDED = 0.3
LOGGED_CHARS = 200
# A strategy that was stored a moment ago counts; many at once are left to the job.
EMBEDDED_AT_ONCE = 200
# What a search may fail with.
SEARCH_FAILURES = (DatabaseError, ContextoptError, OSError)
NOTE = "what worked on a similar task; inspiration, not an instruction"


@dataclass(frozen=True, slots=True)
class Found:
    """A strategy, how similar the task is (cosine, 0 to 1), and what of that is left since its last use."""

    memory: Memory
    similarity: float
    decayed: float

    @property
    def text(self) -> str:
        return fence(self.memory.content, STRATEGY_HINT, NOTE)


@dataclass(frozen=True, slots=True)
class Hint:
    """What a plan is given; all none where nothing similar is known."""

    hint: str | None = None
    similarity: float | None = None
    memory_id: int | None = None
    use_id: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "hint": self.hint,
            "similarity": self.similarity,
            "memory_id": self.memory_id,
            "use_id": self.use_id,
        }


NO_HINT = Hint()


def give_hint(*, team: Team, data: HintIn, actor: str) -> Hint:
    """Return the hint for a task and record that it was given.

    A search that fails gives no hint and no error: planning goes on without.

    Raises:
        InvalidInput: the team has no such task or assembly.
    """
    _check_places(team, data)
    try:
        # A database that refuses the search must not spoil the caller's transaction.
        with transaction.atomic():
            found = find_similar(team, task=data.task, repository=data.repository)
            return _record(found, data, actor) if found else NO_HINT
    except SEARCH_FAILURES as error:
        log.warning("strategy_search_failed", error=str(error)[:500], repository=data.repository)
        return NO_HINT


def preview_hint(*, team: Team, data: HintIn) -> Hint:
    """Return the hint that a task would be given now; nothing is counted.

    Raises:
        ServiceUnavailable: strategies cannot be searched just now.
    """
    try:
        with transaction.atomic():
            found = find_similar(team, task=data.task, repository=data.repository)
    except (DatabaseError, OSError) as error:
        log.warning("strategy_search_failed", error=str(error)[:500], repository=data.repository)
        raise ServiceUnavailable("Strategy search is temporarily unavailable.") from error
    return Hint(found.text, found.similarity, found.memory.pk) if found else NO_HINT


def find_similar(team: Team, *, task: str, repository: str) -> Found | None:
    """Return the best strategy of the repository above the similarity that a hint needs, after its decay.

    Of the two most similar the one that is more trusted wins where they are about as close.
    """
    ensure_embedded(SEARCHABLE, team.pk, limit=EMBEDDED_AT_ONCE)
    allowed = () if policy_of(team.pk).hints_across_repositories else (("repository", (repository,)),)
    hits = search(
        SEARCHABLE,
        team.pk,
        prepare_query(task[:HINTED_TASK_CHARS]),
        filters=SearchFilters(types=(STRATEGY,), conditions=allowed),
        limit=STRATEGIES_LOOKED_AT,
        min_similarity=SIMILARITY_NEEDED,
    )
    memories = Memory.objects.live().filter(team=team).in_bulk([hit.id for hit in hits])
    found = [
        Found(memories[hit.id], hit.similarity, hit.similarity * hit.decay)
        for hit in hits
        if hit.similarity is not None and hit.id in memories
    ]
    return max(
        (each for each in found if each.decayed > SIMILARITY_NEEDED),
        key=lambda each: (each.decayed * (0.5 + each.memory.trust), each.memory.pk),
        default=None,
    )


def _check_places(team: Team, data: HintIn) -> None:
    for field, model in (("task_id", Task), ("assembly_id", Assembly)):
        key = getattr(data, field)
        if key is not None and not model._default_manager.filter(team=team, pk=key).exists():
            raise InvalidInput.of(field, f"there is no {field.removesuffix('_id')} {key}")


def _record(found: Found, data: HintIn, actor: str) -> Hint:
    """Note that the hint was given. That keeps no strategy fresh: its use does, see `credits.settle_uses`."""
    memory = found.memory
    Memory.objects.filter(pk=memory.pk).update(use_count=F("use_count") + 1)
    use = StrategyUse.objects.create(
        memory=memory,
        task_id=data.task_id,
        assembly_id=data.assembly_id,
        similarity=found.similarity,
        asked=data.task[:HINTED_TASK_CHARS],
        created_by=actor[:160],
    )
    log.info(
        "strategy_hint_found",
        similarity=round(found.similarity, 4),
        memory_type=memory.memory_type,
        content=memory.content[:LOGGED_CHARS],
        memory_id=memory.pk,
    )
    return Hint(found.text, found.similarity, memory.pk, use.pk)
