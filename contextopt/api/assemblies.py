"""Assemblies: what enters a prompt, decided and logged."""

from dataclasses import asdict
from typing import Annotated, Literal, cast

from django.db.models import QuerySet
from django.http import HttpResponse
from ninja import Path, Query, Router
from pydantic import Field

from contextopt.api.access import READ, WRITE, ApiRequest, actor, find_space
from contextopt.api.assembly_outputs import (
    AssemblyDetail,
    AssemblyOut,
    AssemblyPage,
    BatchOut,
    BatchRow,
    VerificationOut,
    assembly_json,
    assembly_row,
)
from contextopt.api.outputs import created, reply
from contextopt.api.paging import PageQuery, by_moment, list_page
from contextopt.api.problems import errors_of
from contextopt.assembling import assemble_space
from contextopt.engine.errors import EngineError
from contextopt.errors import InvalidInput, NotFound
from contextopt.inputs import AssemblyIn, Id, Moment, PromptIn, Slug, Text
from contextopt.models import Assembly
from contextopt.models.assemblies import EMPTY
from contextopt.verification import verify_assembly

router = Router(tags=["Assemblies"])
BY_TIME = by_moment("assembly", "created_at")
BATCH_MAX = 100


class AssemblyQuery(PageQuery):
    """Which assemblies; every filter given must hold."""

    space: Slug | None = None
    stage: Annotated[int | None, Field(ge=2, le=5)] = None
    kind: Literal["space", "phase", "retry", "handoff"] | None = None
    conversation: Annotated[Text | None, Field(max_length=200)] = None
    sha256: Annotated[str | None, Field(pattern=r"^[0-9a-f]{64}$", description="Hash of the text.")] = None
    truncated: bool | None = None
    empty: Annotated[bool | None, Field(description="Contexts of spaces that hold no record.")] = None
    warning: Annotated[Text | None, Field(max_length=32, description="The code of a warning.")] = None
    since: Annotated[Moment | None, Field(description="Made at or after this moment.")] = None
    until: Annotated[Moment | None, Field(description="Made at or before this moment.")] = None

    def select(self, team_id: int) -> QuerySet[Assembly]:
        rows = Assembly.objects.filter(team_id=team_id)
        if self.empty is not None:
            rows = rows.empty() if self.empty else rows.exclude(EMPTY)
        if self.warning is not None:
            rows = rows.warned(self.warning)
        filters = {
            "space__slug": self.space,
            "stage": self.stage,
            "kind": self.kind,
            "conversation": self.conversation,
            "sha256": self.sha256,
            "truncated": self.truncated,
            "created_at__gte": self.since,
            "created_at__lte": self.until,
        }
        return rows.filter(**{name: value for name, value in filters.items() if value is not None})


class BatchQuery(PromptIn):
    """One prompt of a batch; what is given here wins over what the batch says for all."""

    id: Annotated[Text, Field(min_length=1, max_length=200, description="Yours; it comes back.")]


class BatchIn(AssemblyIn):
    """Settings for all of the queries, and the queries."""

    queries: Annotated[list[BatchQuery], Field(min_length=1, max_length=BATCH_MAX)]


@router.post("/assemblies", auth=WRITE, response={201: AssemblyOut}, summary="Assemble a context")
def create_assembly(request: ApiRequest, data: AssemblyIn) -> HttpResponse:
    """Decides what of a space enters one prompt, and logs the decision with its reasons.

    The text never takes more than the context's share of the budget, counted on the exact text. Settings
    given here win over the space's own.
    """
    result = assemble_space(team_id=request.auth.team_id, request=data, actor=actor(request))
    return created(result.to_json(), f"/api/v1/assemblies/{result.id}")


@router.post("/assemblies/batch", auth=WRITE, response=BatchOut, summary="Assemble up to 100 contexts")
def create_assemblies(request: ApiRequest, data: BatchIn) -> HttpResponse:
    """Each query is answered by itself, in order: by a logged assembly, or by the fields at fault."""
    find_space(request, data.space)
    results = [answer_query(request, data, query) for query in data.queries]
    rejected = sum("errors" in result for result in results)
    return reply({"assembled": len(results) - rejected, "rejected": rejected, "results": results})


def answer_query(request: ApiRequest, data: BatchIn, query: BatchQuery) -> BatchRow:
    own = query.model_dump(exclude_unset=True, exclude={"id"})
    # Both were validated as they came in.
    asked = AssemblyIn.model_construct(**data.model_dump(exclude_unset=True, exclude={"queries"}) | own)
    try:
        result = assemble_space(team_id=request.auth.team_id, request=asked, actor=actor(request))
    except (InvalidInput, EngineError) as error:
        return {"id": query.id, "errors": errors_of(error)}
    return {"id": query.id, "assembly": cast(AssemblyOut, result.to_json())}


@router.get("/assemblies", auth=READ, response=AssemblyPage, summary="List assemblies")
def list_assemblies(request: ApiRequest, query: Query[AssemblyQuery]) -> HttpResponse:
    """Newest first, in numbers; the texts are in the single assembly."""
    rows = query.select(request.auth.team_id).select_related("space", "config")
    return reply(list_page(rows, BY_TIME, query, assembly_row))


@router.post("/assemblies/preview", auth=READ, response=AssemblyOut, summary="Preview a context")
def preview_assembly(request: ApiRequest, data: AssemblyIn) -> HttpResponse:
    """The same decision, not logged."""
    result = assemble_space(team_id=request.auth.team_id, request=data, actor=actor(request), store=False)
    return reply(result.to_json())


def find_assembly(request: ApiRequest, assembly_id: int) -> Assembly:
    """Return the team's assembly with its payload.

    Raises:
        NotFound: the team has no such assembly.
    """
    rows = Assembly.objects.select_related("payload", "space", "config")
    assembly = rows.filter(team_id=request.auth.team_id, pk=assembly_id, payload__isnull=False).first()
    if assembly is None:
        raise NotFound(f"There is no assembly {assembly_id}.")
    return assembly


@router.get("/assemblies/{assembly_id}", auth=READ, response=AssemblyDetail, summary="Read an assembly")
def read_assembly(request: ApiRequest, assembly_id: Path[Id]) -> HttpResponse:
    """The rendered text, the ledger of kept and dropped, and the settings that were in force."""
    return reply(assembly_json(find_assembly(request, assembly_id)))


@router.get(
    "/assemblies/{assembly_id}/verification",
    auth=READ,
    response=VerificationOut,
    summary="Verify an assembly",
)
def read_verification(request: ApiRequest, assembly_id: Path[Id]) -> HttpResponse:
    """Computes every stored figure again from the stored text and ledger, and shows what differs."""
    assembly = find_assembly(request, assembly_id)
    differences = [asdict(difference) for difference in verify_assembly(assembly.payload)]
    return reply({"id": assembly.pk, "ok": not differences, "differences": differences})
