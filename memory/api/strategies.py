"""Endpoints for strategy hints and their ratings."""

from typing import TypedDict

from django.http import HttpResponse
from ninja import Path, Router

from contextopt.api.protocol.authentication import WRITE, ApiRequest, actor
from contextopt.api.protocol.outputs import reply
from contextopt.inputs import Id, fields_of
from memory.api.memories import MemoryOut, memory_json
from memory.memories.inputs import HintIn, RatingIn, RetireIn
from memory.memories.memories import find_memory
from memory.strategies.hints import Hint, give_hint
from memory.strategies.strategies import (
    find_strategy,
    find_use,
    rate_use,
    reinstate_strategy,
    retire_strategy,
)

router = Router(tags=["Strategies"])


@fields_of(Hint)
class HintOut(TypedDict):
    """A text to append to a task before planning, or null if no strategy matches.

    Rate the hint by its `use_id`.
    """


@router.post("/strategy-hints", auth=WRITE, response=HintOut, summary="Request a strategy hint")
def ask_for_hint(request: ApiRequest, data: HintIn) -> HttpResponse:
    """Finds the strategy of the same repository that best matches the task by words, meaning and pattern.

    Append the text after the user's own context. It is fenced as inspiration, not an instruction. If search
    is unavailable, the response has no hint and no error.
    """
    return reply(give_hint(team=request.auth.team, data=data, actor=actor(request)).to_json())


@router.post("/strategy-uses/{use_id}/rating", auth=WRITE, response=MemoryOut, summary="Rate a hint")
def rate_hint(request: ApiRequest, use_id: Path[Id], data: RatingIn) -> HttpResponse:
    """Moves the strategy's trust towards the rating. A strategy that hurts is retired."""
    use = find_use(request.auth.team_id, use_id)
    rate_use(use=use, rating=data.rating, actor=actor(request))
    return reply(memory_json(find_memory(request.auth.team_id, use.memory_id)))


@router.post("/strategies/{memory_id}/retire", auth=WRITE, response=MemoryOut, summary="Retire a strategy")
def retire(request: ApiRequest, memory_id: Path[Id], data: RetireIn) -> HttpResponse:
    """Retires a strategy. Agents no longer receive it until it is reinstated."""
    memory = find_strategy(request.auth.team, memory_id)
    retire_strategy(memory=memory, reason=data.reason, actor=actor(request))
    return reply(memory_json(find_memory(request.auth.team_id, memory_id)))


@router.post(
    "/strategies/{memory_id}/reinstate", auth=WRITE, response=MemoryOut, summary="Reinstate a strategy"
)
def reinstate(request: ApiRequest, memory_id: Path[Id]) -> HttpResponse:
    """Makes a retired strategy available again."""
    reinstate_strategy(memory=find_strategy(request.auth.team, memory_id), actor=actor(request))
    return reply(memory_json(find_memory(request.auth.team_id, memory_id)))
