"""Endpoints for the phases of a coding agent and their profiles."""

from datetime import datetime
from functools import partial
from typing import Any, Literal, TypedDict
from urllib.parse import quote

from django.http import HttpResponse
from ninja import Path, Query, Router

from contextopt.agents.inputs import FilterIn, Phase, ProfileIn
from contextopt.agents.models import PhaseProfile
from contextopt.agents.phases import (
    filter_agent_context,
    load_active_profiles,
    publish_profile,
)
from contextopt.agents.phaseversions import activate_version, find_version
from contextopt.api.assemblies import CertificateOut
from contextopt.api.protocol.authentication import ADMIN, READ, WRITE, ApiRequest, actor
from contextopt.api.protocol.outputs import PageQuery, created, list_page, page_of, reply
from contextopt.engine.values import WarningJson
from contextopt.inputs import Ordinal, show
from contextopt.paging import by_number

router = Router(tags=["Phases"])
BY_VERSION = by_number("profile", "version")


class ActiveProfileOut(TypedDict):
    """A phase's active settings. `version` is null for a built-in profile that the team has not changed."""

    phase: str
    version: int | None
    budget_tokens: int
    fields: list[str]


class PhasesOut(TypedDict):
    items: list[ActiveProfileOut]


class ProfileOut(TypedDict):
    """One version of a phase's settings."""

    phase: str
    version: int
    is_active: bool
    budget_tokens: int
    fields: list[str]
    note: str
    created_by: str
    created_at: datetime


class ContextFileOut(TypedDict):
    path: str
    content: str


class AgentContextOut(TypedDict):
    tree: str
    tree_paths: list[str]
    package_manifest: str
    files: list[ContextFileOut]
    memories: list[str | dict[str, Any]]
    docs: list[str | dict[str, Any]]
    tools: list[str | dict[str, Any]]
    task: str


class TrimmedOut(TypedDict):
    """The part of one field that was trimmed for the budget."""

    field: Literal["tree", "tree_paths", "package_manifest", "files", "memories", "docs", "tools"]
    dropped_items: int
    cut_lines: int


class FilterOut(TypedDict):
    """The context for the phase, with its proof. The task is kept in the context and not counted."""

    id: int
    phase: str
    profile_version: int | None
    budget_tokens: int | None
    text: str
    context: AgentContextOut
    full_tokens: int
    filtered_tokens: int
    saved_tokens: int
    saved_percent: int
    warnings: list[WarningJson]
    trimmed: list[TrimmedOut]
    certificate: CertificateOut


profile_json = partial(show, ProfileOut)


@router.post("/phases/{phase}/filter", auth=WRITE, response={201: FilterOut}, summary="Filter a context")
def filter_context(request: ApiRequest, phase: Path[Phase], data: FilterIn) -> HttpResponse:
    """Keeps the fields of an agent's context that the phase needs, within its budget, and logs the saving.

    A phase without a profile gets the context unchanged, with a warning. With a `task_id`, the context
    appears on the task's timeline.
    """
    result = filter_agent_context(
        team_id=request.auth.team_id,
        phase=phase,
        context=data.context.to_value(),
        counter=data.count_by(data.counter, request.auth.team_id),
        actor=actor(request),
        model=data.model,
        task_id=data.task_id,
    )
    return created(result.to_json(), f"/api/v1/assemblies/{result.id}")


@router.get("/phases", auth=READ, response=PhasesOut, summary="List phases")
def list_phases(request: ApiRequest) -> HttpResponse:
    """Returns the active profiles: the six built-in ones, replaced or extended by the team's own."""
    found = load_active_profiles(request.auth.team_id)
    return reply({"items": [{**each.value.to_json(), "version": each.version} for each in found]})


@router.get(
    "/phases/{phase}/profiles",
    auth=READ,
    response=page_of(ProfileOut),
    summary="List versions of a phase's profile",
)
def list_profiles(request: ApiRequest, phase: Path[Phase], page: Query[PageQuery]) -> HttpResponse:
    """Returns the versions of a phase's profile, newest first. A built-in profile has none until it is
    changed.
    """
    profiles = PhaseProfile.objects.filter(team_id=request.auth.team_id, phase=phase)
    return reply(list_page(profiles, BY_VERSION, page, profile_json))


@router.post(
    "/phases/{phase}/profiles", auth=ADMIN, response={201: ProfileOut}, summary="Publish a phase's profile"
)
def create_profile(request: ApiRequest, phase: Path[Phase], data: ProfileIn) -> HttpResponse:
    """Creates a version and activates it. Fields you omit are copied from the active profile.

    A phase without a built-in profile needs both settings.
    """
    profile = publish_profile(team=request.auth.team, phase=phase, data=data, created_by=actor(request))
    return created(
        profile_json(profile), f"/api/v1/phases/{quote(phase, safe='')}/profiles/{profile.version}"
    )


@router.get("/phases/{phase}/profiles/{version}", auth=READ, response=ProfileOut, summary="Read a profile")
def read_profile(request: ApiRequest, phase: Path[Phase], version: Path[Ordinal]) -> HttpResponse:
    """Returns one version of a phase's profile."""
    return reply(profile_json(find_version(PhaseProfile, request.auth.team_id, phase, version)))


@router.post(
    "/phases/{phase}/profiles/{version}/activate",
    auth=ADMIN,
    response=ProfileOut,
    summary="Activate a profile",
)
def activate(request: ApiRequest, phase: Path[Phase], version: Path[Ordinal]) -> HttpResponse:
    """Activates an earlier version, unchanged and under its own number."""
    return reply(
        profile_json(
            activate_version(
                PhaseProfile, team=request.auth.team, phase=phase, version=version, actor=actor(request)
            )
        )
    )
