"""Endpoints for findings and hand-offs between the phases of a task."""

from datetime import datetime
from functools import partial
from typing import Any, Literal, TypedDict

from django.http import HttpResponse
from ninja import Path, Query, Router

from contextopt.agents.handoffs import findings
from contextopt.agents.handoffs.bundles import Reference, build_bundle
from contextopt.agents.handoffs.inputs import (
    AdvanceIn,
    BundleIn,
    Category,
    CompressFindingsIn,
    CompressIn,
    FindingIn,
    FindingPatch,
    Key,
    PhaseName,
    ResolutionIn,
)
from contextopt.agents.handoffs.models import Finding, PhaseCompression, number_of
from contextopt.agents.handoffs.status import (
    BundleFindingOut,
    CompressionOut,
    DiscardedOut,
    FindingOut,
    StatusOut,
    compression_json,
    finding_json,
    task_status,
)
from contextopt.agents.inputs import naming
from contextopt.agents.tasks import find_task
from contextopt.api.phases import AgentContextOut
from contextopt.api.protocol.authentication import READ, WRITE, ApiRequest, actor
from contextopt.api.protocol.outputs import PageQuery, created, list_page, page_of, reply
from contextopt.engine.briefs.compressor import compress
from contextopt.engine.briefs.findings import parse_findings
from contextopt.engine.briefs.settings import BriefSettings
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.engine.values import WarningJson
from contextopt.inputs import Id, fields_of, show
from contextopt.paging import by_lowest, by_number

router = Router(tags=["Tasks"])
BY_ID = by_lowest("compression", "id")
IN_ORDER = by_lowest("finding", "number")
BY_NUMBER = by_number("resolution", "number")


class CompressedOut(TypedDict):
    """The compressed findings. `token_count` counts the brief only."""

    brief: str
    critical_findings: list[str]
    token_count: int
    discarded: list[DiscardedOut]
    warnings: list[WarningJson]


class CompressionVersionOut(CompressionOut):
    """One version of a phase's hand-off. The latest version of a phase is active."""

    phase: PhaseName


class CompressionPage(TypedDict):
    items: list[CompressionVersionOut]
    next_cursor: str | None


@fields_of(Reference)
class ReferenceOut(TypedDict):
    """A finding that is not included in full: the reason, its tokens, and its address."""


class BundleOut(TypedDict):
    """The starting context of a phase. `text` is the critical findings, the brief and the context. `tokens`
    counts findings and brief without the marks that `text` puts before their lines.
    """

    task_id: int
    phase: PhaseName
    from_phase: PhaseName | None
    text: str
    brief: str
    critical_findings: list[BundleFindingOut]
    references: list[ReferenceOut]
    context: AgentContextOut
    budget_tokens: int
    tokens: int
    tokens_without_compression: int
    brief_tokens: int
    critical_tokens: int
    context_tokens: int
    warnings: list[WarningJson]
    assembly_id: int | None
    context_assembly_id: int | None


class CompressionQuery(PageQuery):
    """Which versions to list."""

    phase: PhaseName | None = None


class FindingQuery(PageQuery):
    """Filters for findings. All of them must match."""

    phase: PhaseName | None = None
    category: Category | None = None
    decision: Literal["open", "resolved"] | None = None


def version_json(compression: PhaseCompression) -> dict[str, Any]:
    return {"phase": compression.phase, **compression_json(compression)}


def status_reply(request: ApiRequest, task_id: int) -> HttpResponse:
    return reply(task_status(team_id=request.auth.team_id, task_id=task_id).to_json())


@router.post(
    "/compress-findings", auth=READ, response=CompressedOut, summary="Compress findings without a task"
)
def compress_findings(
    request: ApiRequest,  # noqa: ARG001 Ninja passes it
    data: CompressFindingsIn,
) -> HttpResponse:
    """Selects the critical findings of a phase and writes a brief of the rest. Nothing is stored."""
    settings = BriefSettings()
    if data.budget is not None:
        settings = settings.with_budget(data.phase, data.budget)
    with naming():
        findings = parse_findings(data.findings, phase=data.phase)
    tokenizer = get_tokenizer(data.encoding)
    return reply(compress(findings, phase=data.phase, settings=settings, tokenizer=tokenizer).to_json())


@router.post("/tasks/{task_id}/findings", auth=WRITE, response={201: FindingOut}, summary="Add a finding")
def create_finding(request: ApiRequest, task_id: Path[Id], data: FindingIn) -> HttpResponse:
    """Adds a finding to the task's current phase, or to the earlier one named in `phase`. It gets the next
    ID, such as `F-001`.

    `depends_on` names findings of the task. The brief uses these keys of `content`: pattern_name, location,
    description, reusability, gaps, table, columns, severity, mitigation.
    """
    finding = findings.add_finding(
        team_id=request.auth.team_id, task_id=task_id, data=data, actor=actor(request)
    )
    return created(finding_json(finding), f"/api/v1/tasks/{task_id}/findings/{finding.key}")


@router.get("/tasks/{task_id}/findings", auth=READ, response=page_of(FindingOut), summary="List findings")
def list_findings(request: ApiRequest, task_id: Path[Id], query: Query[FindingQuery]) -> HttpResponse:
    """Returns the findings of all phases in order."""
    found = Finding.objects.filter(task=find_task(request.auth.team_id, task_id))
    return reply(list_page(query.where(found), IN_ORDER, query, finding_json))


@router.get(
    "/tasks/{task_id}/findings/{finding_id}", auth=READ, response=FindingOut, summary="Read a finding"
)
def read_finding(request: ApiRequest, task_id: Path[Id], finding_id: Path[Key]) -> HttpResponse:
    """Returns the whole finding, including parts that were not handed on."""
    task = find_task(request.auth.team_id, task_id)
    return reply(finding_json(findings.find_finding(task, number_of(finding_id))))


@router.patch(
    "/tasks/{task_id}/findings/{finding_id}", auth=WRITE, response=FindingOut, summary="Tag or link a finding"
)
def change_finding(
    request: ApiRequest, task_id: Path[Id], finding_id: Path[Key], data: FindingPatch
) -> HttpResponse:
    """Changes a finding's tags and dependencies. Its content stays the same.

    A list replaces the previous one. The next bundle includes the change. Circular dependencies are rejected.
    """
    finding = findings.change_finding(
        team_id=request.auth.team_id,
        task_id=task_id,
        number=number_of(finding_id),
        data=data,
        actor=actor(request),
    )
    return reply(finding_json(finding))


class ResolutionOut(TypedDict):
    """One answer to a finding's decision. The one with the highest number counts."""

    number: int
    answer: str
    created_by: str
    created_at: datetime


resolution_json = partial(show, ResolutionOut)


@router.get(
    "/tasks/{task_id}/findings/{finding_id}/resolutions",
    auth=READ,
    response=page_of(ResolutionOut),
    summary="List the answers to a decision",
)
def list_resolutions(
    request: ApiRequest, task_id: Path[Id], finding_id: Path[Key], query: Query[PageQuery]
) -> HttpResponse:
    """Returns all answers to a finding's decision, newest first."""
    task = find_task(request.auth.team_id, task_id)
    finding = findings.find_finding(task, number_of(finding_id))
    return reply(list_page(finding.resolutions.all(), BY_NUMBER, query, resolution_json))


@router.post(
    "/tasks/{task_id}/findings/{finding_id}/resolutions",
    auth=WRITE,
    response={201: FindingOut},
    summary="Resolve a decision",
)
def create_resolution(
    request: ApiRequest, task_id: Path[Id], finding_id: Path[Key], data: ResolutionIn
) -> HttpResponse:
    """Answers a finding's decision, or corrects its answer.

    The newest answer counts and is handed on; the others stay. The next bundle includes it.
    """
    finding = findings.resolve_finding(
        team_id=request.auth.team_id,
        task_id=task_id,
        number=number_of(finding_id),
        data=data,
        actor=actor(request),
    )
    return created(finding_json(finding), f"/api/v1/tasks/{task_id}/findings/{finding.key}")


@router.get("/tasks/{task_id}/status", auth=READ, response=StatusOut, summary="Read a task's hand-offs")
def read_status(request: ApiRequest, task_id: Path[Id]) -> HttpResponse:
    """Returns the task with its findings, its hand-offs and their tokens."""
    return status_reply(request, task_id)


@router.post("/tasks/{task_id}/compress", auth=WRITE, response=StatusOut, summary="Compress a phase")
def compress_phase(request: ApiRequest, task_id: Path[Id], data: CompressIn) -> HttpResponse:
    """Keeps the critical findings of a phase in full and writes a brief of the rest.

    Compressing an earlier phase again after new findings creates a further version.

    Open decisions are a conflict that names them, unless `force` is true. If a model writes briefs, the
    extracted brief is active until the model's brief arrives and is found to say nothing beyond the
    findings.
    """
    findings.compress_phase(team_id=request.auth.team_id, task_id=task_id, data=data, actor=actor(request))
    return status_reply(request, task_id)


@router.get(
    "/tasks/{task_id}/compressions", auth=READ, response=CompressionPage, summary="List hand-off versions"
)
def list_compressions(request: ApiRequest, task_id: Path[Id], query: Query[CompressionQuery]) -> HttpResponse:
    """Returns all versions of the task's hand-offs, oldest first."""
    task = find_task(request.auth.team_id, task_id)
    found = PhaseCompression.objects.filter(task=task).select_related("assembly")
    return reply(list_page(query.where(found), BY_ID, query, version_json))


@router.post("/tasks/{task_id}/advance", auth=WRITE, response=StatusOut, summary="Advance to the next phase")
def advance_phase(request: ApiRequest, task_id: Path[Id], data: AdvanceIn) -> HttpResponse:
    """Compresses the current phase and advances to the next: analysis, design, implementation.

    Phases cannot be skipped or repeated. `to` states the expected phase; any other is a conflict.
    """
    findings.advance_phase(team_id=request.auth.team_id, task_id=task_id, data=data, actor=actor(request))
    return status_reply(request, task_id)


@router.post("/tasks/{task_id}/bundle", auth=WRITE, response=BundleOut, summary="Get a phase's bundle")
def read_bundle(request: ApiRequest, task_id: Path[Id], data: BundleIn) -> HttpResponse:
    """Returns the starting context of the current phase: the critical findings of the previous phase in full,
    the brief of the rest, and as much of the agent's context as the phase's budget allows.

    `references` lists every finding that is not included in full. After the first call the brief stays the
    same, unless findings of earlier phases are added, tagged, linked or decided. The next bundle includes
    them.
    """
    bundle = build_bundle(team_id=request.auth.team_id, task_id=task_id, data=data, actor=actor(request))
    return reply(bundle.to_json())
