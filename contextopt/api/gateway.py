"""Endpoints for the gateway's policies: how prompts of a space are treated."""

from typing import Literal, TypedDict

from django.http import HttpResponse
from ninja import Path, Router

from contextopt.api.protocol.authentication import (
    READ,
    WRITE,
    ApiRequest,
    actor,
    find_space,
    require_scope,
    within_spaces,
)
from contextopt.api.protocol.outputs import reply
from contextopt.gateway.policies import EDITORS_FIELDS, PolicyPatch, change_policy, policy_values, read_policy
from contextopt.inputs import Slug
from contextopt.people.models import Scope

router = Router(tags=["Gateway"])


class GatewayOut(TypedDict):
    """How the gateway treats prompts of a space."""

    mode: Literal["audit", "insert"]
    insert_percent: int
    placement: Literal["auto", "system", "tail", "append"]
    keep: Literal["sizes", "question", "all"]
    history_tokens: int | None
    time_limit_ms: int
    internal_phrases: list[str]


@router.get("/spaces/{slug}/gateway", auth=READ, response=GatewayOut, summary="Read a gateway policy")
@within_spaces()
def read_gateway(request: ApiRequest, slug: Path[Slug]) -> HttpResponse:
    """Returns how prompts of the space are treated: by default they are audited, and only sizes are kept."""
    return reply(policy_values(read_policy(find_space(request, slug))))


@router.patch("/spaces/{slug}/gateway", auth=WRITE, response=GatewayOut, summary="Change a gateway policy")
@within_spaces()
def change_gateway(request: ApiRequest, slug: Path[Slug], data: PolicyPatch) -> HttpResponse:
    """Changes the given fields. They take effect within 5 seconds. All but `time_limit_ms` take a key with
    scope admin.
    """
    if data.model_fields_set - EDITORS_FIELDS:
        require_scope(request.auth, Scope.ADMIN)
    policy = change_policy(space=find_space(request, slug), changes=data, actor=actor(request))
    return reply(policy_values(policy))
