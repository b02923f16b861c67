"""Endpoints for memories."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, TypedDict

from django.db.models import QuerySet
from django.http import HttpResponse
from ninja import Path, Query, Router
from pydantic import Field

from contextopt.agents.models import REPOSITORY_MAX
from contextopt.api.protocol.authentication import ADMIN, READ, WRITE, ApiRequest, actor
from contextopt.api.protocol.outputs import PageQuery, created, list_page, page_of, reply
from contextopt.inputs import Id, Slug, Text, show
from contextopt.paging import by_moment
from memory.memories import models as limits
from memory.memories.inputs import MemoryIn, MemoryPatch, TrustLevelName
from memory.memories.memories import (
    access_memories,
    create_memory,
    delete_memory,
    find_memory,
    restore_memory,
    update_memory,
)
from memory.memories.models import Memory
from memory.memories.purge import purge_memory

router = Router(tags=["Memories"])
BY_TIME = by_moment("memory", "created_at")


class MemoryOut(TypedDict):
    """A memory. `trust` changes with ratings; `trust_level` says who wrote it."""

    id: int
    title: str
    content: str
    memory_type: str
    category: str
    tags: list[str]
    repository: str
    space: str | None
    task_id: int | None
    trust_level: TrustLevelName
    trust: float
    payload: dict[str, Any]
    access_count: int
    last_accessed_at: datetime | None
    use_count: int
    evidence_count: int
    tokens_saved: int | None
    retired_at: datetime | None
    retired_reason: str
    created_by: str
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    purged_at: datetime | None


def memory_json(memory: Memory) -> dict[str, Any]:
    return show(MemoryOut, memory, space=memory.space.slug if memory.space else None)


class MemoryQuery(PageQuery):
    """Filters for memories. All of them must match."""

    lookups: ClassVar = {"tag": None, "space": "space__slug", "retired": None, "deleted": None}

    memory_type: Annotated[Text | None, Field(max_length=limits.TYPE_MAX)] = None
    category: Annotated[Text | None, Field(max_length=limits.CATEGORY_MAX)] = None
    tag: Annotated[Text | None, Field(max_length=limits.TAG_MAX)] = None
    repository: Annotated[Text | None, Field(max_length=REPOSITORY_MAX)] = None
    trust_level: TrustLevelName | None = None
    space: Slug | None = None
    task_id: Id | None = None
    retired: bool | None = None
    deleted: Annotated[bool, Field(description="List deleted memories instead of live ones.")] = False

    def select(self, team_id: int) -> QuerySet[Memory]:
        rows = Memory.objects.filter(team_id=team_id, deleted_at__isnull=not self.deleted)
        if self.tag is not None:
            rows = rows.filter(tags__contains=[self.tag])
        if self.retired is not None:
            rows = rows.filter(retired_at__isnull=not self.retired)
        return self.where(rows.select_related("space"))


@router.get("/memories", auth=READ, response=page_of(MemoryOut), summary="List memories")
def list_memories(request: ApiRequest, query: Query[MemoryQuery]) -> HttpResponse:
    """Returns memories, newest first. Listing does not count as access."""
    return reply(list_page(query.select(request.auth.team_id), BY_TIME, query, memory_json))


@router.post("/memories", auth=WRITE, response={201: MemoryOut}, summary="Create a memory")
def add_memory(request: ApiRequest, data: MemoryIn) -> HttpResponse:
    """Creates a memory. With trust level `external`, models get it as data only."""
    memory = create_memory(team=request.auth.team, data=data, actor=actor(request))
    memory = find_memory(request.auth.team_id, memory.pk)
    return created(memory_json(memory), f"/api/v1/memories/{memory.pk}")


@router.get("/memories/{memory_id}", auth=READ, response=MemoryOut, summary="Read a memory")
def read_memory(request: ApiRequest, memory_id: Path[Id]) -> HttpResponse:
    """Returns a memory. This counts as access, which restarts its decay."""
    found = find_memory(request.auth.team_id, memory_id)
    if found.deleted_at is None:
        access_memories(memory_ids=[found.pk])
        found.refresh_from_db(fields=["access_count", "last_accessed_at"])
    return reply(memory_json(found))


@router.patch("/memories/{memory_id}", auth=WRITE, response=MemoryOut, summary="Change a memory")
def change_memory(request: ApiRequest, memory_id: Path[Id], data: MemoryPatch) -> HttpResponse:
    """Changes a memory. Fields you omit stay unchanged."""
    update_memory(memory=find_memory(request.auth.team_id, memory_id), changes=data)
    return reply(memory_json(find_memory(request.auth.team_id, memory_id)))


@router.delete("/memories/{memory_id}", auth=WRITE, response={204: None}, summary="Delete a memory")
def remove_memory(request: ApiRequest, memory_id: Path[Id]) -> HttpResponse:
    """Deletes a memory, which removes it from every search. You can restore it for 30 days; then it is
    purged.
    """
    delete_memory(memory=find_memory(request.auth.team_id, memory_id), actor=actor(request))
    return HttpResponse(status=204)


@router.post("/memories/{memory_id}/restore", auth=WRITE, response=MemoryOut, summary="Restore a memory")
def bring_back_memory(request: ApiRequest, memory_id: Path[Id]) -> HttpResponse:
    """Restores a deleted memory."""
    found = find_memory(request.auth.team_id, memory_id)
    return reply(memory_json(restore_memory(memory=found, actor=actor(request))))


@router.post("/memories/{memory_id}/purge", auth=ADMIN, response=MemoryOut, summary="Purge a memory")
def erase_memory(request: ApiRequest, memory_id: Path[Id]) -> HttpResponse:
    """Erases a memory's text everywhere, with its copies in agents' contexts. This cannot be undone."""
    found = find_memory(request.auth.team_id, memory_id)
    return reply(memory_json(purge_memory(memory=found, actor=actor(request))))
