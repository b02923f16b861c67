"""Endpoints for repositories: their files, the files a task needs, and standing documents."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, TypedDict

from django.http import HttpResponse
from ninja import Path, Query, Router
from pydantic import Field

from contextopt.agents.inputs import StandingDocumentIn
from contextopt.agents.models import REPOSITORY_MAX
from contextopt.agents.standingdocuments import (
    StandingDocument,
    attach_document,
    detach_document,
    find_document,
)
from contextopt.api.protocol.authentication import READ, WRITE, ApiRequest, actor
from contextopt.api.protocol.outputs import PageQuery, created, list_page, page_of, reply
from contextopt.engine.code.filescores import RankedFile
from contextopt.inputs import Id, Text, fields_of, show
from contextopt.paging import by_lowest, by_text
from contextopt.repositories.indexing import IndexReport, create_posted, delete_repository, update_posted
from contextopt.repositories.inputs import RelevantIn, RepositoryFilesIn, RepositoryIn
from contextopt.repositories.models import Repository
from contextopt.repositories.relevantfiles import rank_repository
from contextopt.sql import find_one

router = Router(tags=["Repositories"])
BY_NAME = by_text("repository", "name")
BY_ID = by_lowest("standing_document", "id")


class RepositoryOut(TypedDict):
    """A repository. `revision` is a commit, and empty if files were uploaded."""

    id: int
    name: str
    revision: str
    revision_at: datetime | None
    is_posted: bool
    files: int
    symbols: int
    imports: int
    unresolved: int
    skipped: int
    indexed_at: datetime | None
    created_by: str
    created_at: datetime


class SkippedOut(TypedDict):
    path: str
    reason: str


class UnresolvedOut(TypedDict):
    path: str
    line: int
    target: str


class IndexOut(RepositoryOut):
    """A repository after its files changed. `parsed` counts contents that were new."""

    changed: int
    removed: int
    parsed: int
    seconds: float
    skipped_files: list[SkippedOut]
    unresolved_imports: list[UnresolvedOut]
    circles: list[list[str]]


@fields_of(RankedFile)
class RankedOut(TypedDict):
    """A file with its score and the signals behind it."""


class ShownOut(TypedDict):
    """How the text shows a file: full, hunks, signatures or path."""

    path: str
    mode: str
    tokens: int


class FileOut(TypedDict):
    path: str
    content: str


class RelevantOut(TypedDict):
    """The files a task needs. Use `files` as the `files` of a phase's context."""

    revision: str
    ranked: list[RankedOut]
    text: str
    tokens: int
    budget: int
    encoding: str
    shown: list[ShownOut]
    files: list[FileOut]


REPORTED = ("changed", "removed", "parsed", "seconds", "unresolved_imports", "circles")
repository_json = partial(show, RepositoryOut)


def index_json(report: IndexReport) -> dict[str, Any]:
    found = report.to_json()
    own = {name: found[name] for name in REPORTED}
    return {**repository_json(report.repository), **own, "skipped_files": found["skipped"]}


def find_repository(request: ApiRequest, repository_id: int) -> Repository:
    """Return the team's repository.

    Raises:
        NotFound: the team has no such repository.
    """
    rows = Repository.objects.filter(team_id=request.auth.team_id, pk=repository_id)
    return find_one(rows, f"repository {repository_id}")


@router.get("/repos", auth=READ, response=page_of(RepositoryOut), summary="List repositories")
def list_repositories(request: ApiRequest, page: Query[PageQuery]) -> HttpResponse:
    """Returns the team's repositories by name, with the results of indexing."""
    rows = Repository.objects.filter(team_id=request.auth.team_id)
    return reply(list_page(rows, BY_NAME, page, repository_json))


@router.post("/repos", auth=WRITE, response={201: IndexOut}, summary="Create a repository")
def create_repository(request: ApiRequest, data: RepositoryIn) -> HttpResponse:
    """Creates a repository and reads its files: definitions and imports. A name that is taken is a conflict.

    Upload more files than one request allows with further requests to its files.
    """
    report = create_posted(team=request.auth.team, name=data.name, files=data.files, actor=actor(request))
    return created(index_json(report), f"/api/v1/repos/{report.repository.pk}")


@router.get("/repos/{repository_id}", auth=READ, response=RepositoryOut, summary="Read a repository")
def read_repository(request: ApiRequest, repository_id: Path[Id]) -> HttpResponse:
    """Returns a repository with the results of indexing."""
    return reply(repository_json(find_repository(request, repository_id)))


@router.post(
    "/repos/{repository_id}/files", auth=WRITE, response=IndexOut, summary="Change a repository's files"
)
def update_files(request: ApiRequest, repository_id: Path[Id], data: RepositoryFilesIn) -> HttpResponse:
    """Adds and replaces files, and removes deleted ones. Known contents are not read again.

    A repository that is read from a folder, a git address or an archive is a conflict.
    """
    repository = find_repository(request, repository_id)
    report = update_posted(repository=repository, files=data.files, deleted=data.deleted)
    return reply(index_json(report))


@router.post(
    "/repos/{repository_id}/relevant", auth=READ, response=RelevantOut, summary="Rank files for a task"
)
def rank_files(request: ApiRequest, repository_id: Path[Id], data: RelevantIn) -> HttpResponse:
    """Ranks the files for a task, and shows as much of the best as fits the budget.

    The task's words are searched in contents, paths and names of definitions. Matches spread over imports and
    over files that changed together. `seeds` are files that the task is known to be about. The text never
    exceeds the token budget.
    """
    return reply(rank_repository(find_repository(request, repository_id), data).to_json())


@router.delete("/repos/{repository_id}", auth=WRITE, response={204: None}, summary="Delete a repository")
def remove_repository(request: ApiRequest, repository_id: Path[Id]) -> HttpResponse:
    """Deletes the stored index and files. A folder on the server stays as it is."""
    delete_repository(repository=find_repository(request, repository_id), actor=actor(request))
    return HttpResponse(status=204)


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


class StandingDocumentQuery(PageQuery):
    repository: Annotated[Text | None, Field(min_length=1, max_length=REPOSITORY_MAX)] = None


document_json = partial(show, StandingDocumentOut)


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
    "/standing-documents", auth=READ, response=page_of(StandingDocumentRow), summary="List standing documents"
)
def list_documents(request: ApiRequest, query: Query[StandingDocumentQuery]) -> HttpResponse:
    """Returns the documents of a repository, or of all, in the order they were attached."""
    rows = StandingDocument.objects.filter(team_id=request.auth.team_id).defer("content")
    return reply(list_page(query.where(rows), BY_ID, query, partial(show, StandingDocumentRow)))


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
