"""Endpoints for the records of a space: dated notes, documents, messages, commits."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NotRequired, TypedDict

from django.db.models import QuerySet
from django.http import HttpResponse
from ninja import Path, Query, Router
from pydantic import Field, PlainValidator, ValidationError
from pydantic.json_schema import SkipJsonSchema

from contextopt.api.protocol.authentication import (
    ADMIN,
    READ,
    WRITE,
    ApiRequest,
    actor,
    find_space,
    within_spaces,
)
from contextopt.api.protocol.outputs import PageQuery, created, list_page, page_of, reply
from contextopt.api.protocol.problems import FieldError, field_errors
from contextopt.assemblies.purge import purge_record
from contextopt.inputs import Id, Input, Moment, Ordinal, Slug, Text, field_problems, show
from contextopt.paging import by_moment, by_number
from contextopt.people.models import Scope
from contextopt.spaces import models as limits
from contextopt.spaces import records
from contextopt.spaces.inputs import RecordIn, RecordPatch
from contextopt.spaces.models import Record, RecordRevision, Space
from contextopt.spaces.records import RowResult, hash_content
from contextopt.spaces.recordviews import view_record
from contextopt.sql import find_one

router = Router(tags=["Records"])
BY_DATE = by_moment("record", "date")
BY_REVISION = by_number("revision", "number")
BULK_MAX = 1_000


class RecordRow(TypedDict):
    """A record in lists, without notes and metadata."""

    id: int
    title: str
    type: str
    date: datetime
    tags: list[str]
    pinned: bool
    thread: str
    position: int | None
    source: str
    external_id: str
    view_count: int
    last_viewed_at: datetime | None
    summary: str
    summary_tokens: int
    created_by: str
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    purged_at: datetime | None


class RecordOut(RecordRow):
    """A record in full."""

    notes: str
    metadata: dict[str, Any]


class RowOut(TypedDict):
    """The outcome of one row of a bulk write. `index` counts from 0."""

    index: int
    status: Literal["created", "updated", "unchanged", "rejected"]
    id: NotRequired[int]
    errors: NotRequired[list[FieldError]]


class BulkOut(TypedDict):
    created: int
    updated: int
    unchanged: int
    rejected: int
    results: list[RowOut]


class RevisionOut(TypedDict):
    """A record as it was before a change."""

    number: int
    change: str
    changed_at: datetime
    changed_by: str
    title: str
    type: str
    date: datetime
    tags: list[str]
    notes: str
    pinned: bool
    thread: str
    position: int | None
    metadata: dict[str, Any]
    view_count: int
    deleted_at: datetime | None


record_json = partial(show, RecordOut)


class RecordQuery(PageQuery):
    """Filters for records. All of them must match."""

    lookups: ClassVar = {"tag": None, "deleted": None, "since": "date__gte", "until": "date__lte"}

    type: Annotated[Text | None, Field(max_length=limits.TYPE_MAX)] = None
    tag: Annotated[Text | None, Field(max_length=limits.TAG_MAX)] = None
    source: Annotated[Text | None, Field(max_length=limits.SOURCE_MAX)] = None
    external_id: Annotated[Text | None, Field(max_length=limits.EXTERNAL_ID_MAX)] = None
    thread: Annotated[Text | None, Field(max_length=limits.THREAD_MAX)] = None
    pinned: bool | None = None
    deleted: Annotated[bool, Field(description="List deleted records instead of live ones.")] = False
    since: Annotated[Moment | None, Field(description="Only records dated at or after this time.")] = None
    until: Annotated[Moment | None, Field(description="Only records dated at or before this time.")] = None

    def select(self, space: Space) -> QuerySet[Record]:
        rows = Record.objects.filter(space=space, deleted_at__isnull=not self.deleted)
        if self.tag is not None:
            rows = rows.filter(tags__contains=[self.tag])
        return self.where(rows)


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """An invalid row of a bulk write, with the reason."""

    errors: list[FieldError]


def read_row(value: object) -> RecordIn | RefusedRow:
    """Validate a row separately, so that one invalid row does not reject the others."""
    try:
        return RecordIn.model_validate(value)
    except ValidationError as error:
        return RefusedRow(field_errors(field_problems(error)))


type Row = Annotated[
    RecordIn | SkipJsonSchema[RefusedRow], PlainValidator(read_row, json_schema_input_type=RecordIn)
]


class BulkIn(Input):
    records: Annotated[list[Row], Field(min_length=1, max_length=BULK_MAX)]


class ViewQuery(Input):
    count_view: Annotated[
        bool, Field(description="Set to false if this request should not count as a view.")
    ] = True


def find_record(request: ApiRequest, record_id: int) -> Record:
    """Return the team's record, deleted or not.

    Raises:
        NotFound: the team has no such record.
    """
    rows = Record.objects.select_related("space__team").filter(space__team_id=request.auth.team_id)
    return find_one(rows.filter(pk=record_id), f"record {record_id}")


@router.get("/spaces/{slug}/records", auth=READ, response=page_of(RecordRow), summary="List records")
@within_spaces()
def list_records(request: ApiRequest, slug: Path[Slug], query: Query[RecordQuery]) -> HttpResponse:
    """Returns a space's records, newest first, without notes and metadata."""
    rows = query.select(find_space(request, slug)).defer("notes", "metadata")
    return reply(list_page(rows, BY_DATE, query, partial(show, RecordRow)))


@router.post("/spaces/{slug}/records", auth=WRITE, response={201: RecordOut}, summary="Create a record")
@within_spaces()
def create_record(request: ApiRequest, slug: Path[Slug], data: RecordIn) -> HttpResponse:
    """Creates a record. If one with the same source and external ID exists, the request is a conflict that
    names it.
    """
    space = find_space(request, slug)
    record = records.create_record(space=space, data=data, actor=actor(request))
    return created(record_json(record), f"/api/v1/records/{record.pk}")


@router.post("/spaces/{slug}/records/bulk", auth=WRITE, response=BulkOut, summary="Write up to 1,000 records")
@within_spaces()
def write_records(request: ApiRequest, slug: Path[Slug], data: BulkIn) -> HttpResponse:
    """Creates or updates rows, matched by source and external ID, or leaves them unchanged. A row without
    external ID creates a record.

    Valid rows are written even if others are rejected. A row with the source and external id of an earlier
    row is rejected, unless their content is the same. The response gives the outcome of each row by index.
    """
    space = find_space(request, slug)
    checked = refuse_repeats(data.records)
    rows = {index: row for index, row in enumerate(checked) if isinstance(row, RecordIn)}
    written = records.upsert_records(space=space, rows=list(rows.values()), actor=actor(request))
    outcomes = dict(zip(rows, written, strict=True))
    results = [
        row_json(index, row if isinstance(row, RefusedRow) else outcomes[index])
        for index, row in enumerate(checked)
    ]
    counts = Counter(result["status"] for result in results)
    totals = {status: counts[status] for status in ("created", "updated", "unchanged", "rejected")}
    return reply({**totals, "results": results})


def refuse_repeats(rows: Sequence[RecordIn | RefusedRow]) -> list[RecordIn | RefusedRow]:
    """Refuse rows that would change the record of an earlier row, as imports do."""
    checked = list(rows)
    first: dict[tuple[str, str], tuple[int, bytes]] = {}
    for index, row in enumerate(rows):
        if isinstance(row, RecordIn) and row.external_id:
            content = hash_content(row)
            at, kept = first.setdefault((row.source, row.external_id), (index, content))
            if content != kept:
                problem = f"has the same source and external_id as records.{at}"
                checked[index] = RefusedRow([FieldError(field="external_id", message=problem)])
    return checked


def row_json(index: int, outcome: RowResult | RefusedRow) -> RowOut:
    if isinstance(outcome, RowResult):
        return RowOut(index=index, status=outcome.status, id=outcome.record_id)
    return RowOut(index=index, status="rejected", errors=outcome.errors)


@router.get("/records/{record_id}", auth=READ, response=RecordOut, summary="Read a record")
@within_spaces()
def read_record(request: ApiRequest, record_id: Path[Id], query: Query[ViewQuery]) -> HttpResponse:
    """Returns a record in full. Counts as one view per day for a key with write access, unless
    `count_view=false` or the record is deleted.

    A key with scope read never counts as a view.
    """
    record = find_record(request, record_id)
    is_head = request.META["REQUEST_METHOD"] == "HEAD"
    if query.count_view and not is_head and request.auth.allows(Scope.WRITE):
        record = view_record(record=record, viewer=f"key:{request.auth.pk}")
    return reply(record_json(record))


@router.patch("/records/{record_id}", auth=WRITE, response=RecordOut, summary="Change a record")
@within_spaces()
def update_record(request: ApiRequest, record_id: Path[Id], changes: RecordPatch) -> HttpResponse:
    """Changes a record. Fields you omit stay unchanged. The previous state is kept as a revision."""
    record = find_record(request, record_id)
    return reply(record_json(records.update_record(record=record, changes=changes, actor=actor(request))))


@router.delete("/records/{record_id}", auth=WRITE, response={204: None}, summary="Delete a record")
@within_spaces()
def delete_record(request: ApiRequest, record_id: Path[Id]) -> HttpResponse:
    """Deletes a record, which removes it from every context. You can restore it."""
    records.delete_record(record=find_record(request, record_id), actor=actor(request))
    return HttpResponse(status=204)


@router.post("/records/{record_id}/restore", auth=WRITE, response=RecordOut, summary="Restore a record")
@within_spaces()
def restore_record(request: ApiRequest, record_id: Path[Id]) -> HttpResponse:
    """Restores a deleted record."""
    record = find_record(request, record_id)
    return reply(record_json(records.restore_record(record=record, actor=actor(request))))


@router.post("/records/{record_id}/purge", auth=ADMIN, response=RecordOut, summary="Purge a record")
def erase_record(request: ApiRequest, record_id: Path[Id]) -> HttpResponse:
    """Erases a record's text everywhere, with revisions and stored assemblies. This cannot be undone."""
    return reply(record_json(purge_record(record=find_record(request, record_id), actor=actor(request))))


@router.get(
    "/records/{record_id}/revisions", auth=READ, response=page_of(RevisionOut), summary="List revisions"
)
@within_spaces()
def list_revisions(request: ApiRequest, record_id: Path[Id], page: Query[PageQuery]) -> HttpResponse:
    """Returns the states of the record before each change, newest first."""
    revisions = RecordRevision.objects.filter(record=find_record(request, record_id))
    return reply(list_page(revisions, BY_REVISION, page, partial(show, RevisionOut)))


@router.post(
    "/records/{record_id}/revisions/{number}/restore",
    auth=WRITE,
    response=RecordOut,
    summary="Restore a revision",
)
@within_spaces()
def restore_revision(request: ApiRequest, record_id: Path[Id], number: Path[Ordinal]) -> HttpResponse:
    """Restores the record to an earlier state. The current state becomes a revision too."""
    record = find_record(request, record_id)
    restored = records.restore_revision(record=record, number=number, actor=actor(request))
    return reply(record_json(restored))
