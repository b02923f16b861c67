"""Endpoints for standing documents, which are sent with every step of a repository's tasks."""

from datetime import datetime
from typing import Annotated, Any, TypedDict

from django.http import HttpResponse
from ninja import Path, Query, Router
from pydantic import Field

from contextopt.agents.inputs import StandingDocumentIn
from contextopt.agents.models import REPOSITORY_MAX
from contextopt.agents.standing import attach_document, detach_document, find_document
from contextopt.api.protocol.access import READ, WRITE, ApiRequest, actor
from contextopt.api.protocol.outputs import created, pick, reply
from contextopt.api.protocol.paging import PageQuery, list_page, match_given
from contextopt.inputs import Id, Text
from contextopt.models import StandingDocument
from contextopt.paging import by_lowest

router = Router(tags=["Repositories"])
BY_ID = by_lowest("standing_document", "id")


class StandingDocumentRow(TypedDict):
    """A standing document without its content."""

    id: int
    repository: str
    title: str
    created_by: str
    created_at: datetime
    updated_at: datetime


class StandingDocumentOut(StandingDocumentRow):
    content: str


class StandingDocumentPage(TypedDict):
    items: list[StandingDocumentRow]
    next_cursor: str | None


class StandingDocumentQuery(PageQuery):
    repository: Annotated[Text | None, Field(min_length=1, max_length=REPOSITORY_MAX)] = None


_ROW = tuple(StandingDocumentRow.__annotations__)


def document_row(document: StandingDocument) -> dict[str, Any]:
    return pick(document, _ROW)


def document_json(document: StandingDocument) -> dict[str, Any]:
    return {**document_row(document), "content": document.content}


@router.post(
    "/standing-documents",
    auth=WRITE,
    response={200: StandingDocumentOut, 201: StandingDocumentOut},
    summary="Attach a standing document",
)
def attach(request: ApiRequest, data: StandingDocumentIn) -> HttpResponse:
    """Attaches a document to a repository. Every context for a step of its tasks then includes it.

    A document with the same title is replaced. The repository need not be indexed.
    """
    document, is_new = attach_document(team=request.auth.team, data=data, actor=actor(request))
    body = document_json(document)
    return created(body, f"/api/v1/standing-documents/{document.pk}") if is_new else reply(body)


@router.get(
    "/standing-documents", auth=READ, response=StandingDocumentPage, summary="List standing documents"
)
def list_documents(request: ApiRequest, query: Query[StandingDocumentQuery]) -> HttpResponse:
    """Returns the documents of a repository, or of all, in the order they were attached."""
    rows = StandingDocument.objects.filter(team_id=request.auth.team_id).defer("content")
    return reply(list_page(match_given(rows, repository=query.repository), BY_ID, query, document_row))


@router.get(
    "/standing-documents/{document_id}",
    auth=READ,
    response=StandingDocumentOut,
    summary="Read a standing document",
)
def read_document(request: ApiRequest, document_id: Path[Id]) -> HttpResponse:
    """Returns a standing document with its content."""
    return reply(document_json(find_document(request.auth.team_id, document_id)))


@router.delete(
    "/standing-documents/{document_id}",
    auth=WRITE,
    response={204: None},
    summary="Detach a standing document",
)
def detach(request: ApiRequest, document_id: Path[Id]) -> HttpResponse:
    """Deletes a standing document. Contexts that were logged with it keep their texts."""
    document = find_document(request.auth.team_id, document_id)
    detach_document(document=document, actor=actor(request))
    return HttpResponse(status=204)
