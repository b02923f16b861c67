"""Response types of the API, and a function for each kind of object."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

from django.http import HttpResponse
from pydantic_core import to_json

from contextopt.api.protocol.problems import FieldError
from contextopt.models import ApiKey, ContextConfig, Record, RecordRevision, Space, Team
from contextopt.spaces.configs import ALL_ALLOWED, SETTINGS


def reply(data: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return data as JSON without validating our own output again."""
    return HttpResponse(
        to_json(data, inf_nan_mode="null"),
        status=status,
        content_type="application/json",
        headers=dict(headers or {}),
    )


def created(data: object, location: str) -> HttpResponse:
    return reply(data, status=201, headers={"Location": location})


class Problem(TypedDict):
    """An error response, according to RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: NotRequired[list[FieldError]]


class TeamOut(TypedDict):
    slug: str
    name: str
    time_zone: str


class KeyOut(TypedDict):
    id: int
    name: str
    scope: Literal["read", "write", "admin"]
    prefix: str
    created_by: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None
    spaces: list[str] | None
    requests_per_minute: int | None


class NewKeyOut(KeyOut):
    """A key with its secret, which is shown only once."""

    secret: str


class KeyPage(TypedDict):
    items: list[KeyOut]
    next_cursor: str | None


class MeOut(TypedDict):
    team: TeamOut
    key: KeyOut


class RecordCounts(TypedDict):
    live: int
    pinned: int
    deleted: int


class SpaceOut(TypedDict):
    slug: str
    name: str
    description: str
    categories: list[str]
    records: RecordCounts
    created_at: datetime


class SpacePage(TypedDict):
    items: list[SpaceOut]
    next_cursor: str | None


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


class RecordPage(TypedDict):
    items: list[RecordRow]
    next_cursor: str | None


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


class RevisionPage(TypedDict):
    items: list[RevisionOut]
    next_cursor: str | None


class ConfigOut(TypedDict):
    """One config of a space. Weights and shares are strings, since they are exact decimals."""

    version: int
    is_active: bool
    is_draft: bool
    window_days: int | Literal["all"]
    max_records: int | Literal["all"]
    recency_weight: str
    frequency_weight: str
    system_tokens: int
    history_tokens: int
    response_tokens: int
    context_tokens: int
    stage3_context_tokens: int
    total_tokens: int | None
    encoding: str
    record_order: Literal["score", "stable"]
    semantic_weight: str
    lexical_weight: str
    neighbour_share: str
    date_weight: str
    who_weight: str
    budget_mode: Literal["fixed", "adaptive"]
    adaptive_strictness: str
    question_window_days: int | Literal["all"]
    question_max_records: int | Literal["all"]
    question_notes_chars: int | Literal["all"]
    question_record_tokens: int | Literal["all"]
    note: str
    created_by: str
    created_at: datetime


class ConfigPage(TypedDict):
    items: list[ConfigOut]
    next_cursor: str | None


def pick(item: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(item, name) for name in names}


_KEY = tuple(name for name in KeyOut.__annotations__ if name != "spaces")
_RECORD_ROW = tuple(RecordRow.__annotations__)
_RECORD = (*_RECORD_ROW, "notes", "metadata")
_REVISION = tuple(RevisionOut.__annotations__)


def key_json(key: ApiKey) -> dict[str, Any]:
    """Return a key with the slugs of the spaces that it is limited to; null for all."""
    return {**pick(key, _KEY), "spaces": key.space_slugs if key.is_limited else None}


def team_json(team: Team) -> TeamOut:
    return TeamOut(slug=team.slug, name=team.name, time_zone=team.time_zone)


def space_json(space: Space) -> SpaceOut:
    counts = space.counts
    return SpaceOut(
        slug=space.slug,
        name=space.name,
        description=space.description,
        categories=space.categories,
        records=RecordCounts(live=counts.live, pinned=counts.pinned, deleted=counts.deleted),
        created_at=space.created_at,
    )


def record_row(record: Record) -> dict[str, Any]:
    return pick(record, _RECORD_ROW)


def record_json(record: Record) -> dict[str, Any]:
    return pick(record, _RECORD)


def revision_json(revision: RecordRevision) -> dict[str, Any]:
    return pick(revision, _REVISION)


def config_json(config: ContextConfig) -> dict[str, Any]:
    shown = pick(config, ("version", "is_active", "is_draft", *SETTINGS, "note", "created_by", "created_at"))
    return shown | {name: "all" for name in ALL_ALLOWED if shown[name] is None}
