"""Search over records and memories."""

from typing import TypedDict

from django.http import HttpResponse
from django.utils import timezone
from ninja import Router

from contextopt.api.protocol.access import READ, ApiRequest
from contextopt.api.protocol.outputs import reply
from memory.search.inputs import SearchIn
from memory.search.search import ResultOut, find

router = Router(tags=["Search"])


class FoundOut(TypedDict):
    """The best first. `degraded` says that the embedder was down and words alone were searched."""

    results: list[ResultOut]
    degraded: bool


@router.post("/search", auth=READ, response=FoundOut, summary="Search records and memories")
def search(request: ApiRequest, data: SearchIn) -> HttpResponse:
    """By words (BM25) and by meaning (cosine), fused. Being found counts as no view."""
    found = find(team=request.auth.team, request=data, now=timezone.now())
    return reply({"results": found.results, "degraded": found.degraded})
