"""The endpoint that plays a conversation through under each placement."""

from typing import TypedDict

import structlog
from django.http import HttpResponse
from ninja import Router

from contextopt.api.protocol.access import WRITE, ApiRequest, actor
from contextopt.api.protocol.outputs import reply
from contextopt.assemblies.placement.simulations import TURNS_MAX, SimulationIn, simulate
from contextopt.models import Space
from contextopt.search.embedders import EmbeddingUnavailable
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.search.wordcounts import ensure_counted
from contextopt.spaces.records import SEARCHABLE

log = structlog.get_logger(__name__)

router = Router(tags=["Assemblies"])


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
