"""Searches records and memories: chooses where to look and describes each hit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict, cast

from django.db import models
from django.db.models.functions import Left, Length

from contextopt.errors import InvalidInput
from contextopt.inputs import show
from contextopt.people.models import Team
from contextopt.search import registry
from contextopt.search.hybrid import Hit, Method, Question, Target, search_all
from contextopt.search.registry import Searchable, SearchFilters
from contextopt.spaces.models import Space
from memory.memories.memories import prepare_memory_query
from memory.search.inputs import Kind, SearchIn

CONTENT_SHOWN = 20_000
"""The most characters of a result's content; a longer one is marked as cut."""
# Records store no trust level because they are always the team's own.
RECORD_TRUST = "user"


class PartsOut(TypedDict):
    """How a score came about. Ranks count from 1; null where that ranking does not have the row."""

    method: Method
    lexical: float
    lexical_rank: int | None
    similarity: float | None
    vector_rank: int | None
    fused: float
    relevance: float
    decay: float


class ResultOut(TypedDict):
    """A hit; what its kind does not have is null. Without a vector `similarity` is null, not 0."""

    id: int
    kind: Kind
    title: str
    content: str
    content_cut: bool
    similarity: float | None
    lexical_score: float
    fused_score: float
    relevance_score: float
    match_score: float
    below_min_relevance: bool
    decayed_score: float
    access_count: int
    type: str | None
    memory_type: str | None
    category: str | None
    tags: list[str]
    date: datetime | None
    created_at: datetime
    source: str | None
    external_id: str | None
    thread: str | None
    repository: str | None
    trust_level: str
    parts: PartsOut


@dataclass(frozen=True, slots=True)
class Found:
    """The answer; `degraded` means that the embedder was down and only words were searched."""

    results: tuple[ResultOut, ...]
    question: Question

    @property
    def degraded(self) -> bool:
        return self.question.degraded


def find(*, team: Team, request: SearchIn, now: datetime) -> Found:
    """Search the team's data as of `now`, or as of the moment in the request. Hits do not count as views.

    Raises:
        NotFound: the team has no such space.
    """
    targets = targets_of(team, request)
    question = prepare_memory_query(team.pk, request.query, request.space, targets=targets).choose(targets)
    hits = search_all(
        targets,
        question,
        limit=request.limit,
        method=request.method,
        hybrid_alpha=request.hybrid_alpha,
        min_similarity=request.min_similarity,
        now=request.as_of or now,
    )
    rows = {target.searchable.name: _load(target.searchable, hits) for target in targets}
    results = [
        describe(hit, rows[hit.kind][hit.id], request.method, request.min_relevance)
        for hit in hits
        if hit.id in rows[hit.kind]
    ]
    return Found(tuple(results), question)


def targets_of(team: Team, request: SearchIn) -> list[Target]:
    """Return the corpora that the request searches.

    Raises:
        InvalidInput: records are asked for, and no space.
        NotFound: the team has no such space.
    """
    if request.space is None and "record" in request.wanted_kinds:
        raise InvalidInput.of("space", "is required to search records")
    corpora = {"memory": team.pk}
    if request.space is not None:
        corpora["record"] = Space.objects.find(team.pk, request.space).pk
    return [
        Target(searchable, corpora[searchable.name], filters_of(request, searchable.name))
        for searchable in registry.all()
        if searchable.name in request.wanted_kinds
    ]


def filters_of(request: SearchIn, kind: str) -> SearchFilters:
    return SearchFilters(
        types=_tuple(request.types),
        sources=_tuple(request.sources),
        tags=_tuple(request.tags),
        date_from=request.date_from,
        date_to=request.latest,
        conditions=tuple(_conditions(request, kind)),
    )


def _conditions(request: SearchIn, kind: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the filters on columns that only memories have. A record's trust is known without a column."""
    trust = request.trust_levels
    if kind == "record" and trust is not None and RECORD_TRUST in trust:
        trust = None
    for name, values in (
        ("repository", request.repositories),
        ("category", request.categories),
        ("trust_level", trust),
    ):
        if values is not None:
            yield name, tuple(values)


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _load(searchable: Searchable, hits: Sequence[Hit]) -> dict[int, Any]:
    """Read the rows of the hits in one query, with only as much of their texts as is shown."""
    ids = [hit.id for hit in hits if hit.kind == searchable.name]
    if not ids:
        return {}
    body = searchable.text_columns[-1]
    # Typed as Any because the columns depend on the concrete model.
    rows: models.QuerySet[Any] = searchable.model._default_manager.filter(pk__in=ids)
    shown = rows.defer(body, "search_vector").annotate(shown=Left(body, CONTENT_SHOWN))
    return dict(shown.annotate(characters=Length(body)).in_bulk())


def describe(hit: Hit, row: Any, method: Method, min_relevance: float | None = None) -> ResultOut:
    is_record = hit.kind == "record"
    return ResultOut(
        id=hit.id,
        kind="record" if is_record else "memory",
        title=row.title,
        content=row.shown,
        content_cut=row.characters > CONTENT_SHOWN,
        similarity=hit.similarity,
        lexical_score=hit.lexical,
        fused_score=hit.fused,
        relevance_score=hit.relevance,
        match_score=hit.match,
        below_min_relevance=min_relevance is not None and hit.match < min_relevance,
        decayed_score=hit.decayed,
        access_count=row.view_count if is_record else row.access_count,
        type=row.type if is_record else None,
        memory_type=None if is_record else row.memory_type,
        category=None if is_record else row.category,
        tags=list(row.tags),
        date=row.date if is_record else None,
        created_at=row.created_at,
        source=row.source if is_record else None,
        external_id=row.external_id if is_record else None,
        thread=row.thread if is_record else None,
        repository=None if is_record else row.repository,
        trust_level=RECORD_TRUST if is_record else row.trust_level,
        parts=cast("PartsOut", show(PartsOut, hit, method=method)),
    )
