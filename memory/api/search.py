"""The endpoint for search over records and memories."""

from typing import TypedDict

from django.http import HttpResponse
from django.utils import timezone
from ninja import Router

from contextopt.api.protocol.authentication import READ, ApiRequest, within_spaces
from contextopt.api.protocol.outputs import reply
from memory.search.inputs import SearchIn
from memory.search.search import ResultOut, find

router = Router(tags=["Search"])


class FoundOut(TypedDict):
    """Results, best first. `degraded` means that the embedder was down and only words were searched."""

    results: list[ResultOut]
    degraded: bool


@router.post("/search", auth=READ, response=FoundOut, summary="Search records and memories")
@within_spaces()
def search(request: ApiRequest, data: SearchIn) -> HttpResponse:
    """Searches by words (BM25) and meaning (cosine), combined. Results don't count as views."""
    if request.auth.is_limited:
        data = data.for_records()
    found = find(team=request.auth.team, request=data, now=timezone.now())
    return reply({"results": found.results, "degraded": found.degraded})
