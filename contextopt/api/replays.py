"""Endpoints that compute a logged assembly again."""

from typing import Any, NotRequired, TypedDict

from django.http import HttpResponse
from ninja import Path, Router

from contextopt.api.assemblies import AssemblyOut, find_assembly
from contextopt.api.protocol.access import READ, ApiRequest
from contextopt.api.protocol.outputs import reply
from contextopt.api.protocol.reach import within_spaces
from contextopt.assemblies.replay.inputs import ReplayIn
from contextopt.assemblies.replay.replay import replay_assembly
from contextopt.inputs import Id

router = Router(tags=["Assemblies"])


class ReplayOut(TypedDict):
    """A logged assembly, computed again. Without `context`, `reason` and `message` say why there is none."""

    id: int
    same: bool | None
    sha256: str | None
    tokens: int | None
    added: list[int]
    removed: list[int]
    differences: list[str]
    reconstructed: bool
    looked_up: int
    settings: dict[str, Any]
    context: AssemblyOut | None
    reason: NotRequired[str]
    message: NotRequired[str]


@router.post("/assemblies/{assembly_id}/replay", auth=READ, response=ReplayOut, summary="Replay an assembly")
@within_spaces()
def replay(request: ApiRequest, assembly_id: Path[Id], data: ReplayIn) -> HttpResponse:
    """Computes the context again as it was then, under the same or other settings, and compares it.

    It uses the records as they were. The stored text and ledger are only compared. Candidates that other
    settings reach for and that were not considered then are looked up.
    """
    again = replay_assembly(find_assembly(request, assembly_id), data)
    settings = {} if again.config is None else again.config.to_json()
    context = again.result.to_json() if again.result else None
    return reply({**again.to_json(), "settings": settings, "context": context})
