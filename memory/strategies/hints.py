"""Hints: the strategy most similar to a task about to be planned, fenced as inspiration."""

from dataclasses import asdict, dataclass
from datetime import datetime
from time import perf_counter
from typing import Any

import structlog
from django.db import DatabaseError, transaction
from django.db.models import F

from contextopt.agents.models import Task
from contextopt.assemblies.models import Assembly, Kind
from contextopt.assemblies.savings import PlainText, Saving, log_saving
from contextopt.engine.text.promptparts import BlockPattern, prose_of
from contextopt.engine.text.promptpassages import is_plain
from contextopt.engine.text.quoting import STRATEGY_HINT, fence
from contextopt.engine.text.tokens import DEFAULT_ENCODING, get_counter, get_tokenizer
from contextopt.errors import InvalidInput, ServiceUnavailable
from contextopt.people.models import Team
from contextopt.search.hybrid import prepare_query, search
from contextopt.search.registry import SearchFilters
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.spaces.configs import ContextConfig
from memory.memories.inputs import HintIn
from memory.memories.memories import EMBEDDED_AT_ONCE, SEARCHABLE
from memory.memories.models import STRATEGY, Memory
from memory.strategies.models import StrategyUse
from memory.strategies.strategies import HINTED_TASK_CHARS, policy_of

log = structlog.get_logger(__name__)

STRATEGIES_LOOKED_AT = 2
SIMILARITY_NEEDED = 0.3
LOGGED_CHARS = 200
# A search fails if the database refuses it, the embedder is down, or the embedder's files cannot be read.
SEARCH_FAILURES = (DatabaseError, ServiceUnavailable, OSError)
NOTE = "what worked on a similar task; inspiration, not an instruction"


@dataclass(frozen=True, slots=True)
class Found:
    """A strategy, its similarity to the task (cosine, 0 to 1), and what is left of that after decay."""

    memory: Memory
    similarity: float
    decayed: float

    @property
    def text(self) -> str:
        return fence(self.memory.content, STRATEGY_HINT, NOTE)


@dataclass(frozen=True, slots=True)
class Hint:
    """The hint for a plan; all fields are None if nothing similar is known."""

    hint: str | None = None
    similarity: float | None = None
    memory_id: int | None = None
    use_id: int | None = None
    assembly_id: int | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


NO_HINT = Hint()


def give_hint(*, team: Team, data: HintIn, actor: str) -> Hint:
    """Return the hint for a task, record that it was given, and log its tokens as a cost.

    A failing search gives no hint and no error, so that planning goes on without one.

    Raises:
        InvalidInput: the team has no such task or assembly.
    """
    for field, model in (("task_id", Task), ("assembly_id", Assembly)):
        key = getattr(data, field)
        if key is not None and not model._default_manager.filter(team=team, pk=key).exists():
            raise InvalidInput.of(field, f"there is no {field.removesuffix('_id')} {key}")
    started = perf_counter()
    found = look_up_hint(team, task=data.task, repository=data.repository, as_of=data.as_of)
    if found is None:
        return NO_HINT
    with transaction.atomic():
        use = record_use(found, data, actor)
        assembly = _log(team, found, data, actor, (perf_counter() - started) * 1_000)
    return Hint(found.text, found.similarity, found.memory.pk, use.pk, assembly.pk)


def look_up_hint(team: Team, *, task: str, repository: str, as_of: datetime | None = None) -> Found | None:
    """Return the strategy for a hint, if there is one. A failing search finds none and is no error."""
    try:
        # A database error in the search must not break the caller's transaction.
        with transaction.atomic():
            return find_similar(team, task=task, repository=repository, as_of=as_of)
    except SEARCH_FAILURES as error:
        log.warning("strategy_search_failed", error=str(error)[:500], repository=repository)
        return None


def preview_hint(*, team: Team, data: HintIn) -> Hint:
    """Return the hint that a task would be given now, without counting it.

    Raises:
        ServiceUnavailable: strategies cannot be searched just now.
    """
    try:
        with transaction.atomic():
            found = find_similar(team, task=data.task, repository=data.repository, as_of=data.as_of)
    except (DatabaseError, OSError) as error:
        log.warning("strategy_search_failed", error=str(error)[:500], repository=data.repository)
        raise ServiceUnavailable("Strategy search is temporarily unavailable.") from error
    return Hint(found.text, found.similarity, found.memory.pk) if found else NO_HINT


def find_similar(team: Team, *, task: str, repository: str, as_of: datetime | None = None) -> Found | None:
    """Return the repository's best strategy whose similarity, after decay, is enough for a hint.

    If the two most similar are about equally close, the more trusted one wins.
    """
    ensure_embedded(SEARCHABLE, team.pk, limit=EMBEDDED_AT_ONCE)
    allowed = () if policy_of(team.pk).hints_across_repositories else (("repository", (repository,)),)
    hits = search(
        SEARCHABLE,
        team.pk,
        prepare_query(_asked(team.pk, task)[:HINTED_TASK_CHARS]),
        filters=SearchFilters(types=(STRATEGY,), date_to=as_of, conditions=allowed),
        limit=STRATEGIES_LOOKED_AT,
        min_similarity=SIMILARITY_NEEDED,
        now=as_of,
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


def _asked(team_id: int, task: str) -> str:
    """Return what a person wrote of a task, without what was pasted or wrapped around it."""
    if is_plain(task):
        return task
    return prose_of(task, BlockPattern.parse_all(ContextConfig.objects.tool_patterns(team_id)))


def record_use(found: Found, data: HintIn, actor: str) -> StrategyUse:
    """Record that the hint was given. This does not refresh the strategy: see `credits.settle_uses`."""
    memory = found.memory
    Memory.objects.filter(pk=memory.pk).update(use_count=F("use_count") + 1)
    use = StrategyUse.objects.create(
        memory=memory,
        task_id=data.task_id,
        assembly_id=data.assembly_id,
        similarity=found.similarity,
        asked=data.task[:HINTED_TASK_CHARS],
        created_by=actor,
    )
    log.info(
        "strategy_hint_found",
        similarity=round(found.similarity, 4),
        memory_type=memory.memory_type,
        content=memory.content[:LOGGED_CHARS],
        memory_id=memory.pk,
    )
    return use


def _log(team: Team, found: Found, data: HintIn, actor: str, assembly_ms: float) -> Assembly:
    """Log what the hint adds to a prompt. Without Contextopt there would be no hint."""
    counter, text, nothing = (
        get_counter("tokenizer", get_tokenizer(DEFAULT_ENCODING)),
        PlainText(found.text),
        PlainText(""),
    )
    saving = Saving(
        kind=Kind.HINT,
        before=nothing,
        after=text,
        tokens_before=counter.count(nothing),
        tokens_after=counter.count(text),
        tokens_available=None,
        counter=counter,
        assembly_ms=assembly_ms,
        task_id=data.task_id,
        details={"memory_id": found.memory.pk, "similarity": found.similarity},
        request={"repository": data.repository},
    )
    return log_saving(team_id=team.pk, saving=saving, actor=actor)
