"""Endpoints that compute a logged assembly again, explain it, or play a conversation through."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

import structlog
from django.http import HttpResponse
from ninja import Path, Query, Router

from contextopt.api.assemblies import AssemblyOut, find_assembly
from contextopt.api.protocol.authentication import READ, WRITE, ApiRequest, actor, in_reach, within_spaces
from contextopt.api.protocol.outputs import reply
from contextopt.assemblies.inputs import ReplayIn
from contextopt.assemblies.placement.rehearsal import TURNS_MAX, SimulationIn, simulate
from contextopt.assemblies.replay.explanation import EXPECTED_CHARS, explain_record, find_expected
from contextopt.assemblies.replay.replay import replay_assembly
from contextopt.inputs import Id, Text
from contextopt.search.embedders.values import EmbeddingUnavailable
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.search.wordcounts import ensure_counted
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import SEARCHABLE

log = structlog.get_logger(__name__)

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


class ExplainedOut(TypedDict):
    """The record that is explained."""

    id: int
    source: str
    external_id: str
    title: str


class ExplanationOut(TypedDict):
    """The outcome of a record in a logged assembly. Figures that do not apply to the step are left out."""

    record: ExplainedOut
    step: Literal[
        "included",
        "no_records",
        "not_in_space",
        "deleted",
        "outside_window",
        "not_a_candidate",
        "duplicate_of",
        "over_record_limit",
        "over_budget",
        "low_relevance",
    ]
    rank: NotRequired[int]
    of: NotRequired[int]
    parts: NotRequired[dict[str, float]]
    tokens: NotRequired[int]
    over_tokens: NotRequired[int]
    duplicate_of: NotRequired[int]
    message: str


@router.get(
    "/assemblies/{assembly_id}/explain", auth=READ, response=ExplanationOut, summary="Explain a record"
)
@within_spaces()
def explain(
    request: ApiRequest,
    assembly_id: Path[Id],
    expect: Annotated[Text, Query(min_length=1, max_length=EXPECTED_CHARS)],
) -> HttpResponse:
    """Explains which step kept a record out of a logged context, or at which rank it was kept."""
    assembly = find_assembly(request, assembly_id)
    records = Record.objects.filter(space__team_id=request.auth.team_id).select_related("space")
    record = find_expected(assembly, expect, in_reach(request, records), field="expect")
    return reply(explain_record(assembly, record).to_json())


class SimulatedOut(TypedDict):
    """A placement at the prices of cached reads and writes, as shares of the input price. `cost` is the mean
    of a prompt in input tokens at full price, and `hit_rate` the share that the cache holds.
    """

    placement: str
    read: float
    write: float
    cost: float
    hit_rate: float
    recall: float | None


class SimulationOut(TypedDict):
    outcomes: list[SimulatedOut]


@router.post("/placement-simulations", auth=WRITE, response=SimulationOut, summary="Simulate placements")
def simulate_placements(request: ApiRequest, data: SimulationIn) -> HttpResponse:
    """Plays a conversation through under each placement and returns what its prompts cost after the
    provider's cache.

    Its records are not stored. Recall is the share of the expected records that
    are in sight.
    """
    outcomes = simulate(
        team=request.auth.team,
        scripts=[data.to_script()],
        context_tokens=data.context_tokens,
        turns=TURNS_MAX,
        model=data.model,
        actor=actor(request),
        prepare=_make_searchable,
    )
    return reply({"outcomes": [outcome.to_json() for outcome in outcomes]})


def _make_searchable(space: Space) -> None:
    ensure_counted(SEARCHABLE, space.pk)
    try:
        ensure_embedded(SEARCHABLE, space.pk, limit=space.records.count())
    except EmbeddingUnavailable as error:
        # Questions are then matched by words only, as in any other space.
        log.warning("simulation_not_embedded", error=str(error))
