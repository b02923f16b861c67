"""Endpoints for spaces."""

from datetime import datetime
from typing import Any, TypedDict

from django.http import HttpResponse
from ninja import Path, Query, Router

from contextopt.api.protocol.authentication import (
    ADMIN,
    READ,
    WRITE,
    ApiRequest,
    actor,
    find_space,
    in_reach,
    within_spaces,
)
from contextopt.api.protocol.outputs import PageQuery, created, list_page, page_of, reply
from contextopt.inputs import Slug, show
from contextopt.paging import by_text
from contextopt.spaces import spaces
from contextopt.spaces.inputs import SpaceIn, SpacePatch
from contextopt.spaces.models import Space
from contextopt.spaces.records import Recount, recount_progress

router = Router(tags=["Spaces"])
BY_SLUG = by_text("space", "slug")


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


class SpaceDetail(SpaceOut):
    """A space, and how far its records are counted anew after a change of its encoding."""

    recount: Recount | None


def space_row(space: Space) -> dict[str, Any]:
    return show(SpaceOut, space, records=show(RecordCounts, space.counts))


def space_json(space: Space) -> dict[str, Any]:
    return {**space_row(space), "recount": recount_progress(space)}


@router.get("/spaces", auth=READ, response=page_of(SpaceOut), summary="List spaces")
@within_spaces()
def list_spaces(request: ApiRequest, page: Query[PageQuery]) -> HttpResponse:
    """Returns the team's spaces by slug, with record counts."""
    rows = in_reach(request, Space.objects.with_counts().filter(team_id=request.auth.team_id), "pk")
    return reply(list_page(rows, BY_SLUG, page, space_row))


@router.post("/spaces", auth=WRITE, response={201: SpaceDetail}, summary="Create a space")
def create_space(request: ApiRequest, data: SpaceIn) -> HttpResponse:
    """Creates a space with the default settings as config 1. A slug that is taken is a conflict."""
    space = spaces.create_space(team=request.auth.team, data=data, actor=actor(request))
    return created(space_json(space), f"/api/v1/spaces/{space.slug}")


@router.get("/spaces/{slug}", auth=READ, response=SpaceDetail, summary="Read a space")
@within_spaces()
def read_space(request: ApiRequest, slug: Path[Slug]) -> HttpResponse:
    """Returns a space with its record counts."""
    return reply(space_json(find_space(request, slug)))


@router.patch("/spaces/{slug}", auth=WRITE, response=SpaceDetail, summary="Change a space")
@within_spaces()
def update_space(request: ApiRequest, slug: Path[Slug], changes: SpacePatch) -> HttpResponse:
    """Changes a space. Fields you omit stay unchanged. The slug never changes."""
    space = find_space(request, slug)
    space = spaces.update_space(space=space, changes=changes, actor=actor(request))
    return reply(space_json(space))


@router.delete("/spaces/{slug}", auth=ADMIN, response={204: None}, summary="Delete a space")
def delete_space(request: ApiRequest, slug: Path[Slug]) -> HttpResponse:
    """Deletes the space with its records, revisions, configs, assemblies, conversations and memories, and
    erases its text wherever it was copied to. This cannot be undone.
    """
    spaces.delete_space(space=find_space(request, slug), actor=actor(request))
    return HttpResponse(status=204)
