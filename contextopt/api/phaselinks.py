"""Endpoints for the table that joins the names of phases."""

from datetime import datetime
from typing import TypedDict
from urllib.parse import quote

from django.http import HttpResponse
from ninja import Path, Query, Router

from contextopt.agents.handoffs.inputs import PhaseName
from contextopt.agents.inputs import Phase
from contextopt.agents.phaselinks import (
    LinkIn,
    PhaseLink,
    load_active_links,
    publish_link,
)
from contextopt.agents.phaseversions import activate_version, find_version
from contextopt.api.protocol.authentication import ADMIN, READ, ApiRequest, actor
from contextopt.api.protocol.outputs import PageQuery, created, list_page, page_of, reply
from contextopt.inputs import Ordinal, show
from contextopt.paging import by_number

router = Router(tags=["Phases"])
BY_VERSION = by_number("link", "version")


class ActiveLinkOut(TypedDict):
    """How the name of a phase is read: whose profile it uses, and whose hand-off its steps are sent."""

    phase: str
    profile: str
    receives: PhaseName | None
    version: int | None


class LinksOut(TypedDict):
    items: list[ActiveLinkOut]


class LinkOut(TypedDict):
    """One version of a phase's link."""

    phase: str
    version: int
    is_active: bool
    profile: str
    receives: PhaseName | None
    note: str
    created_by: str
    created_at: datetime


def link_json(link: PhaseLink) -> dict[str, object]:
    return show(LinkOut, link, receives=link.receives or None)


@router.get("/phase-links", auth=READ, response=LinksOut, summary="List phase links")
def list_active_links(request: ApiRequest) -> HttpResponse:
    """Returns the table that joins hand-off phases and agent phases: the defaults, replaced or extended by
    the team's own.
    """
    found = load_active_links(request.auth.team_id)
    return reply({"items": [{**each.value.to_json(), "version": each.version} for each in found]})


@router.get(
    "/phases/{phase}/links", auth=READ, response=page_of(LinkOut), summary="List versions of a phase's link"
)
def list_links(request: ApiRequest, phase: Path[Phase], page: Query[PageQuery]) -> HttpResponse:
    """Returns the versions of a phase's link, newest first. A default has none until it is changed."""
    links = PhaseLink.objects.filter(team_id=request.auth.team_id, phase=phase)
    return reply(list_page(links, BY_VERSION, page, link_json))


@router.post("/phases/{phase}/links", auth=ADMIN, response={201: LinkOut}, summary="Publish a phase's link")
def create_link(request: ApiRequest, phase: Path[Phase], data: LinkIn) -> HttpResponse:
    """Creates a version and activates it. Fields you omit are copied from the active link."""
    link = publish_link(team=request.auth.team, phase=phase, data=data, created_by=actor(request))
    return created(link_json(link), f"/api/v1/phases/{quote(phase, safe='')}/links/{link.version}")


@router.get("/phases/{phase}/links/{version}", auth=READ, response=LinkOut, summary="Read a phase's link")
def read_link(request: ApiRequest, phase: Path[Phase], version: Path[Ordinal]) -> HttpResponse:
    """Returns one version of a phase's link."""
    return reply(link_json(find_version(PhaseLink, request.auth.team_id, phase, version)))


@router.post(
    "/phases/{phase}/links/{version}/activate",
    auth=ADMIN,
    response=LinkOut,
    summary="Activate a phase's link",
)
def activate(request: ApiRequest, phase: Path[Phase], version: Path[Ordinal]) -> HttpResponse:
    """Activates an earlier version, unchanged and under its own number."""
    link = activate_version(
        PhaseLink, team=request.auth.team, phase=phase, version=version, actor=actor(request)
    )
    return reply(link_json(link))
