"""Endpoints for API keys."""

from datetime import datetime
from typing import Any, Literal, TypedDict

from django.http import HttpResponse
from ninja import Path, Query, Router

from contextopt.api.protocol.authentication import ADMIN, READ, ApiRequest, actor, within_spaces
from contextopt.api.protocol.idempotency import answer_holds_secret
from contextopt.api.protocol.outputs import PageQuery, created, list_page, page_of, reply
from contextopt.inputs import Id, show
from contextopt.paging import by_number
from contextopt.people import keys
from contextopt.people.inputs import KeyIn, RotationIn
from contextopt.people.models import ApiKey
from contextopt.sql import find_one

router = Router(tags=["Access"])
BY_ID = by_number("key", "id")


class TeamOut(TypedDict):
    slug: str
    name: str
    time_zone: str
    date_order: Literal["", "day", "month"]


class KeyOut(TypedDict):
    id: int
    name: str
    scope: Literal["gateway", "read", "write", "admin"]
    prefix: str
    created_by: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None
    spaces: list[str] | None
    requests_per_minute: int | None


class NewKeyOut(KeyOut):
    """A key with its secret, which is shown only once."""

    secret: str


class MeOut(TypedDict):
    team: TeamOut
    key: KeyOut


def key_json(key: ApiKey) -> dict[str, Any]:
    """Return a key with the slugs of the spaces that it is limited to; null for all."""
    return show(KeyOut, key, spaces=key.space_slugs if key.is_limited else None)


def find_key(request: ApiRequest, key_id: int) -> ApiKey:
    """Return the team's key. Raises: NotFound."""
    return find_one(ApiKey.objects.filter(team_id=request.auth.team_id, pk=key_id), f"key {key_id}")


@router.get("/me", auth=READ, response=MeOut, summary="Read the current key")
@within_spaces()
def read_me(request: ApiRequest) -> HttpResponse:
    """Returns the key of this request: its team, name and scope."""
    return reply({"team": show(TeamOut, request.auth.team), "key": key_json(request.auth)})


@router.delete("/me", auth=READ, response={204: None}, summary="Revoke the current key")
@within_spaces()
def revoke_me(request: ApiRequest) -> HttpResponse:
    """Revokes the key of this request immediately. A tool that is disconnected gives back its key."""
    keys.revoke_key(key=request.auth, actor=actor(request))
    return HttpResponse(status=204)


@router.get("/keys", auth=ADMIN, response=page_of(KeyOut), summary="List keys")
def list_keys(request: ApiRequest, page: Query[PageQuery]) -> HttpResponse:
    """Returns the team's keys, newest first, including revoked ones. Secrets are not stored."""
    rows = ApiKey.objects.with_space_slugs().filter(team_id=request.auth.team_id)
    return reply(list_page(rows, BY_ID, page, key_json))


@router.post("/keys", auth=ADMIN, response={201: NewKeyOut}, summary="Create a key")
@answer_holds_secret
def create_key(request: ApiRequest, data: KeyIn) -> HttpResponse:
    """Creates a key. The secret is in this response and nowhere else."""
    key, secret = keys.create_key(team=request.auth.team, data=data, actor=actor(request))
    return created({**key_json(key), "secret": secret}, f"/api/v1/keys/{key.pk}")


@router.post("/keys/{key_id}/rotate", auth=ADMIN, response={201: NewKeyOut}, summary="Rotate a key")
@answer_holds_secret
def rotate_key(request: ApiRequest, key_id: Path[Id], data: RotationIn) -> HttpResponse:
    """Creates a key that may do the same as this one, which stays valid for the overlap and can be revoked
    earlier. The secret is in this response and nowhere else.
    """
    key = find_key(request, key_id)
    new, secret = keys.rotate_key(key=key, data=data, actor=actor(request))
    return created({**key_json(new), "secret": secret}, f"/api/v1/keys/{new.pk}")


@router.delete("/keys/{key_id}", auth=ADMIN, response={204: None}, summary="Revoke a key")
def revoke_key(request: ApiRequest, key_id: Path[Id]) -> HttpResponse:
    """Revokes the key immediately. Revoking it again has no further effect."""
    keys.revoke_key(key=find_key(request, key_id), actor=actor(request))
    return HttpResponse(status=204)
