"""Endpoints and response types of assemblies."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, NotRequired, TypedDict, cast

from django.db.models import QuerySet
from django.http import HttpResponse
from ninja import Path, Query, Router
from pydantic import Field

from contextopt.api.protocol.authentication import (
    READ,
    WRITE,
    ApiRequest,
    actor,
    find_space,
    in_reach,
    within_spaces,
)
from contextopt.api.protocol.outputs import PageQuery, created, list_page, page_of, reply
from contextopt.api.protocol.problems import FieldError, errors_of
from contextopt.assemblies import savings
from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.figures import IN_API, SIZES, Figure
from contextopt.assemblies.inputs import AssemblyIn, PromptIn
from contextopt.assemblies.log import searched_passages
from contextopt.assemblies.models import CONVERSATION_MAX, EMPTY, UNDELIVERED, Assembly
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.validation import EngineError
from contextopt.engine.values import (
    Certificate,
    ContextStats,
    LedgerEntry,
    TokenAllocation,
    WarningJson,
    warnings_json,
)
from contextopt.errors import InvalidInput
from contextopt.inputs import Id, Moment, Slug, Text, add_fields, fields_of, pick
from contextopt.paging import by_moment
from contextopt.sql import find_one


def described(figure: Figure, *, is_known: bool = False) -> Any:
    """Return the type of a figure with its description; `is_known` if it is never null here."""
    kind = figure.known_type if is_known else figure.type
    return Annotated[kind, Field(description=figure.describe(is_known=is_known) or None)]


class BaselineOut(TypedDict):
    """A context that would have been sent otherwise, by name. `saved` is signed. It is null if the saving
    does not count, because the context is empty or a warning says that the answer may be missing.
    """

    name: str
    tokens: int
    saved: int | None


@fields_of(TokenAllocation)
class AllocationOut(TypedDict):
    """The division of the total, in tokens."""


@fields_of(ContextStats, without=("dropped_by_reason",))
class StatsOut(TypedDict):
    """Figures of one assembly. `tokens_saved` is null if the saving does not count."""


@fields_of(Certificate)
class CertificateOut(TypedDict):
    """Tokens counted on the exact text, its SHA-256, and the tokens of earlier blocks that stay in sight."""

    total_tokens: int


@add_fields({figure.name: described(figure, is_known=True) for figure in SIZES})
class PlacementOut(TypedDict):
    """Where the context goes, which blocks to hold for the next prompt, and what the prompt shares with the
    conversation's last one.
    """

    name: str
    in_sight: list[int]
    rewritten: bool


@fields_of(LedgerEntry, without=("kept", "reason", "duplicate_of"))
class IncludedOut(TypedDict):
    pass


class DroppedOut(IncludedOut):
    """`duplicate_of` is the record that this one repeats, if that is the reason."""

    reason: str
    duplicate_of: int | None


class AssemblyOut(TypedDict):
    """One assembled context with its proof. `id` is null for a preview, which is not logged."""

    id: int | None
    space: str
    stage: int
    as_of: datetime
    config_version: int
    warnings: list[WarningJson]
    searched: list[str]
    overrides: dict[str, Any]
    text: str
    allocation: AllocationOut
    stats: StatsOut
    baselines: list[BaselineOut]
    certificate: CertificateOut
    placement: PlacementOut
    included: list[IncludedOut]
    dropped: list[DroppedOut]
    counts: dict[str, int]


@add_fields({figure.name: described(figure) for figure in IN_API})
class AssemblyRow(TypedDict):
    """The figures of a logged assembly. `not_counted` explains why `tokens_saved` is null."""

    id: int
    kind: str
    space: str | None
    stage: int | None
    phase: str
    config_version: int | None
    conversation: str
    model: str
    actor: str
    as_of: datetime
    created_at: datetime


class LedgerEntryOut(IncludedOut):
    kept: bool
    reason: str
    duplicate_of: int | None


class LedgerOut(TypedDict):
    """All kept candidates, the best hundred dropped ones, and counts of the rest.

    Phase filters and retries have `chars` and the cut parts: `trimmed` or `changed_files`.
    """

    entries: list[LedgerEntryOut]
    order: list[int]
    baseline_order: list[int]
    counts: dict[str, int]
    carried: NotRequired[list[int]]
    warnings: NotRequired[list[WarningJson]]
    baseline: NotRequired[str]
    chars: NotRequired[dict[str, Any]]
    trimmed: NotRequired[list[dict[str, Any]]]
    changed_files: NotRequired[list[dict[str, Any]]]


class AssemblyDetail(AssemblyRow):
    """A logged assembly with its text, its ledger and the settings it used."""

    text: str
    allocation: AllocationOut
    ledger: LedgerOut
    config: dict[str, Any]
    request: dict[str, Any]
    searched: list[str]
    purged_at: datetime | None


class DifferenceOut(TypedDict):
    figure: str
    stored: Any
    recomputed: Any


class VerificationOut(TypedDict):
    """The result of recomputing every stored figure from the stored text and ledger."""

    id: int
    ok: bool
    differences: list[DifferenceOut]


class BatchRow(TypedDict):
    """One response in a batch: an assembly, or the reason why there is none."""

    id: str
    assembly: NotRequired[AssemblyOut]
    errors: NotRequired[list[FieldError]]


class BatchOut(TypedDict):
    assembled: int
    rejected: int
    results: list[BatchRow]


_ASSEMBLY_FIGURES = tuple(
    name for name in AssemblyRow.__annotations__ if name not in {"space", "config_version"}
)


def assembly_row(assembly: Assembly) -> dict[str, Any]:
    return {
        **pick(assembly, _ASSEMBLY_FIGURES),
        "space": assembly.space.slug if assembly.space else None,
        "config_version": assembly.config_version,
    }


def assembly_json(assembly: Assembly) -> dict[str, Any]:
    """Return a logged assembly with its payload, which the caller loaded in the same query."""
    payload = assembly.payload
    return {
        **assembly_row(assembly),
        "text": payload.text,
        "allocation": {
            "total": assembly.total_tokens,
            "system": assembly.system_tokens,
            "history": assembly.history_tokens,
            "context": assembly.tokens_available,
            "response": assembly.response_tokens,
        },
        "ledger": {
            "entries": payload.entries,
            **{name: value for name, value in payload.ledger.items() if name != "candidates"},
            "warnings": warnings_json(payload.warnings),
        },
        "config": payload.config,
        "request": payload.request,
        "searched": searched_passages(payload),
        "purged_at": payload.purged_at,
    }


router = Router(tags=["Assemblies"])
BY_TIME = by_moment("assembly", "created_at")
BATCH_MAX = 100


class AssemblyQuery(PageQuery):
    """Filters for assemblies. All of them must match."""

    lookups: ClassVar = {
        "space": "space__slug", "empty": None, "warning": None, "not_delivered": None,
        "since": "created_at__gte", "until": "created_at__lte",
    }  # fmt: skip

    space: Slug | None = None
    stage: Annotated[int | None, Field(ge=2, le=5)] = None
    kind: Literal["space", "phase", "retry", "handoff", "hint", "agent"] | None = None
    conversation: Annotated[Text | None, Field(max_length=CONVERSATION_MAX)] = None
    sha256: Annotated[str | None, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the text.")] = None
    truncated: bool | None = None
    empty: Annotated[
        bool | None,
        Field(description="True lists only space contexts without records, false only the others."),
    ] = None
    warning: Annotated[
        Text | None, Field(max_length=32, description="Only assemblies with this warning code.")
    ] = None
    not_delivered: Annotated[
        bool | None,
        Field(description="True lists only contexts of hooks that never arrived, false only the others."),
    ] = None
    since: Annotated[Moment | None, Field(description="Only assemblies logged at or after this time.")] = None
    until: Annotated[Moment | None, Field(description="Only assemblies logged at or before this time.")] = (
        None
    )

    def select(self, team_id: int) -> QuerySet[Assembly]:
        rows = Assembly.objects.filter(team_id=team_id)
        if self.empty is not None:
            rows = rows.empty() if self.empty else rows.exclude(EMPTY)
        if self.not_delivered is not None:
            rows = rows.not_delivered() if self.not_delivered else rows.exclude(UNDELIVERED)
        if self.warning is not None:
            rows = rows.warned(self.warning)
        return self.where(rows)


class BatchQuery(PromptIn):
    """One prompt of a batch. Its settings override those of the batch."""

    id: Annotated[
        Text, Field(min_length=1, max_length=200, description="Your own ID; returned with the result.")
    ]


class BatchIn(AssemblyIn):
    """Settings for all queries, and the queries."""

    queries: Annotated[list[BatchQuery], Field(min_length=1, max_length=BATCH_MAX)]


@router.post("/assemblies", auth=WRITE, response={201: AssemblyOut}, summary="Assemble a context")
@within_spaces()
def create_assembly(request: ApiRequest, data: AssemblyIn) -> HttpResponse:
    """Chooses the records of a space for one prompt, and logs the decision with its reasons.

    The text never exceeds the context's share of the budget, counted on the exact text. Settings in the
    request override the space's settings.
    """
    result = assemble_space(team_id=request.auth.team_id, request=data, actor=actor(request))
    return created(result.to_json(), f"/api/v1/assemblies/{result.id}")


@router.post("/assemblies/batch", auth=WRITE, response=BatchOut, summary="Assemble up to 100 contexts")
@within_spaces()
def create_assemblies(request: ApiRequest, data: BatchIn) -> HttpResponse:
    """Processes the queries in order. Each gets its own result: a logged assembly, or the invalid fields."""
    find_space(request, data.space)
    results = [answer_query(request, data, query) for query in data.queries]
    rejected = sum("errors" in result for result in results)
    return reply({"assembled": len(results) - rejected, "rejected": rejected, "results": results})


def answer_query(request: ApiRequest, data: BatchIn, query: BatchQuery) -> BatchRow:
    own = query.model_dump(exclude_unset=True, exclude={"id"})
    # Both were validated on arrival.
    asked = AssemblyIn.model_construct(**data.model_dump(exclude_unset=True, exclude={"queries"}) | own)
    try:
        result = assemble_space(team_id=request.auth.team_id, request=asked, actor=actor(request))
    except (InvalidInput, EngineError) as error:
        return {"id": query.id, "errors": errors_of(error)}
    return {"id": query.id, "assembly": cast(AssemblyOut, result.to_json())}


@router.get("/assemblies", auth=READ, response=page_of(AssemblyRow), summary="List assemblies")
@within_spaces()
def list_assemblies(request: ApiRequest, query: Query[AssemblyQuery]) -> HttpResponse:
    """Returns the figures of assemblies, newest first. The texts are in the single assembly."""
    rows = in_reach(request, query.select(request.auth.team_id)).select_related("space", "config")
    return reply(list_page(rows, BY_TIME, query, assembly_row))


@router.post("/assemblies/preview", auth=READ, response=AssemblyOut, summary="Preview a context")
@within_spaces()
def preview_assembly(request: ApiRequest, data: AssemblyIn) -> HttpResponse:
    """Builds the same context without logging it."""
    result = assemble_space(team_id=request.auth.team_id, request=data, actor=actor(request), store=False)
    return reply(result.to_json())


def find_assembly(request: ApiRequest, assembly_id: int) -> Assembly:
    """Return the team's assembly with its payload.

    Raises:
        NotFound: the team has no such assembly.
    """
    mine = Assembly.objects.for_replay().filter(
        team_id=request.auth.team_id, pk=assembly_id, payload__isnull=False
    )
    return find_one(mine, f"assembly {assembly_id}")


@router.get("/assemblies/{assembly_id}", auth=READ, response=AssemblyDetail, summary="Read an assembly")
@within_spaces()
def read_assembly(request: ApiRequest, assembly_id: Path[Id]) -> HttpResponse:
    """Returns the text, the ledger of kept and dropped records, and the settings used."""
    return reply(assembly_json(find_assembly(request, assembly_id)))


@router.post(
    "/assemblies/{assembly_id}/delivery", auth=WRITE, response={204: None}, summary="Confirm a delivery"
)
@within_spaces()
def confirm_delivery(request: ApiRequest, assembly_id: Path[Id]) -> HttpResponse:
    """Notes that a context with `awaits_delivery` has arrived in its prompt. Only then does it count as a
    saving or a cost. Possible for 10 minutes; confirming it again has no further effect.
    """
    savings.confirm_delivery(Assembly.objects.filter(team_id=request.auth.team_id), assembly_id)
    return HttpResponse(status=204)


@router.get(
    "/assemblies/{assembly_id}/verification",
    auth=READ,
    response=VerificationOut,
    summary="Verify an assembly",
)
@within_spaces()
def read_verification(request: ApiRequest, assembly_id: Path[Id]) -> HttpResponse:
    """Recomputes every stored figure from the stored text and ledger, and lists differences."""
    assembly = find_assembly(request, assembly_id)
    differences = [asdict(difference) for difference in verify_assembly(assembly.payload)]
    return reply({"id": assembly.pk, "ok": not differences, "differences": differences})
