"""Search over records and memories."""

from datetime import datetime
from typing import TypedDict

from django.http import HttpResponse
from django.utils import timezone
from ninja import Router

from contextopt.api.access import READ, ApiRequest
from contextopt.api.outputs import reply
from memory.finding import PartsOut, find
from memory.searchinputs import Kind, SearchIn

router = Router(tags=["Search"])


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


class FoundOut(TypedDict):
    """The best first. `degraded` says that the embedder was down and words alone were searched."""

    results: list[ResultOut]
    degraded: bool


@router.post("/search", auth=READ, response=FoundOut, summary="Search records and memories")
def search(request: ApiRequest, data: SearchIn) -> HttpResponse:
    """By words (BM25) and by meaning (cosine), fused. Being found counts as no view."""
    found = find(team=request.auth.team, request=data, now=timezone.now())
    return reply({"results": [result.to_json() for result in found.results], "degraded": found.degraded})
