"""Hints: the strategy that best matches a task about to be planned, fenced as inspiration."""

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
from contextopt.engine.text.tokens import DEFAULT_ENCODING, get_counter, get_tokenizer
from contextopt.errors import InvalidInput, ServiceUnavailable
from contextopt.people.models import Team
from memory.memories.inputs import HintIn
from memory.memories.models import Memory
from memory.strategies.matches import Found, find_best
from memory.strategies.models import StrategyUse
from memory.strategies.strategies import HINTED_TASK_CHARS

log = structlog.get_logger(__name__)

LOGGED_CHARS = 200
# A search fails if the database refuses it, or the embedder's files cannot be read.
SEARCH_FAILURES = (DatabaseError, OSError)


@dataclass(frozen=True, slots=True)
class Hint:
    """The hint for a plan, and why its strategy matches; all fields are None if nothing similar is known."""

    hint: str | None = None
    match_score: float | None = None
    similarity: float | None = None
    word_share: float | None = None
    same_pattern: bool | None = None
    memory_id: int | None = None
    use_id: int | None = None
    assembly_id: int | None = None

    @classmethod
    def of(cls, found: Found, use: StrategyUse | None = None, assembly: Assembly | None = None) -> "Hint":
        return cls(
            hint=found.text,
            **found.match.to_json(),
            memory_id=found.memory.pk,
            use_id=use.pk if use else None,
            assembly_id=assembly.pk if assembly else None,
        )

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
    return Hint.of(found, use, assembly)


def look_up_hint(team: Team, *, task: str, repository: str, as_of: datetime | None = None) -> Found | None:
    """Return the strategy for a hint, if there is one. A failing search finds none and is no error."""
    try:
        # A database error in the search must not break the caller's transaction.
        with transaction.atomic():
            return find_best(team, task=task, repository=repository, as_of=as_of)
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
            found = find_best(team, task=data.task, repository=data.repository, as_of=data.as_of)
    except SEARCH_FAILURES as error:
        log.warning("strategy_search_failed", error=str(error)[:500], repository=data.repository)
        raise ServiceUnavailable("Strategy search is temporarily unavailable.") from error
    return Hint.of(found) if found else NO_HINT


def record_use(found: Found, data: HintIn, actor: str) -> StrategyUse:
    """Record that the hint was given. This does not refresh the strategy: see `credits.settle_uses`."""
    memory = found.memory
    Memory.objects.filter(pk=memory.pk).update(use_count=F("use_count") + 1)
    use = StrategyUse.objects.create(
        memory=memory,
        task_id=data.task_id,
        assembly_id=data.assembly_id,
        **found.match.to_json(),
        asked=data.task[:HINTED_TASK_CHARS],
        created_by=actor,
    )
    log.info(
        "strategy_hint_found",
        similarity=_rounded(found.match.similarity),
        match_score=_rounded(found.match.score),
        memory_type=memory.memory_type,
        content=memory.content[:LOGGED_CHARS],
        memory_id=memory.pk,
    )
    return use


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


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
        details={"memory_id": found.memory.pk, **found.match.to_json()},
        request={"repository": data.repository},
    )
    return log_saving(team_id=team.pk, saving=saving, actor=actor)
