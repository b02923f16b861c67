"""Endpoints for configs: numbered versions of a space's settings."""

from datetime import datetime
from typing import Any

from django.http import HttpResponse
from ninja import Path, Query, Router
from pydantic import BaseModel, Field

from contextopt.api.protocol.authentication import ADMIN, READ, ApiRequest, actor, find_space, within_spaces
from contextopt.api.protocol.outputs import PageQuery, created, list_page, page_of, reply
from contextopt.engine.settings import SETTINGS
from contextopt.engine.validation import ALL
from contextopt.inputs import Ordinal, Slug, pick
from contextopt.paging import by_number
from contextopt.spaces.configs import ContextConfig, activate_config, find_config, publish_config
from contextopt.spaces.inputs import ConfigIn, output_type_of, with_fields

router = Router(tags=["Settings"])
BY_VERSION = by_number("config", "version")


@with_fields({name: (output_type_of(one), Field(description=one.about)) for name, one in SETTINGS.items()})
class ConfigOut(BaseModel):
    """One config of a space. Weights and shares are strings, since they are exact decimals."""

    version: int
    is_active: bool
    is_draft: bool
    note: str
    created_by: str
    created_at: datetime


def config_json(config: ContextConfig) -> dict[str, Any]:
    shown = config.settings.to_stored()
    alls = {name: ALL for name, one in SETTINGS.items() if one.is_all and shown[name] is None}
    about = pick(config, ("version", "is_active", "is_draft", "note", "created_by", "created_at"))
    return about | shown | alls


@router.get("/spaces/{slug}/configs", auth=READ, response=page_of(ConfigOut), summary="List config versions")
@within_spaces()
def list_configs(request: ApiRequest, slug: Path[Slug], page: Query[PageQuery]) -> HttpResponse:
    """Returns the space's configs, newest first. One of them is active."""
    configs = ContextConfig.objects.filter(space=find_space(request, slug))
    return reply(list_page(configs, BY_VERSION, page, config_json))


@router.post(
    "/spaces/{slug}/configs", auth=ADMIN, response={201: ConfigOut}, summary="Publish a config version"
)
def create_config(request: ApiRequest, slug: Path[Slug], data: ConfigIn) -> HttpResponse:
    """Creates a config and activates it, unless it is a draft. Fields you omit are copied from the active
    config.
    """
    space = find_space(request, slug)
    config = publish_config(space=space, data=data, created_by=actor(request))
    return created(config_json(config), f"/api/v1/spaces/{space.slug}/configs/{config.version}")


@router.get(
    "/spaces/{slug}/configs/{version}", auth=READ, response=ConfigOut, summary="Read a config version"
)
@within_spaces()
def read_config(request: ApiRequest, slug: Path[Slug], version: Path[Ordinal]) -> HttpResponse:
    """Returns one config of a space."""
    return reply(config_json(find_config(find_space(request, slug), version)))


@router.post(
    "/spaces/{slug}/configs/{version}/activate",
    auth=ADMIN,
    response=ConfigOut,
    summary="Activate a config version",
)
def activate(request: ApiRequest, slug: Path[Slug], version: Path[Ordinal]) -> HttpResponse:
    """Activates a draft or an earlier config, unchanged and under its own number."""
    space = find_space(request, slug)
    return reply(config_json(activate_config(space=space, version=version, actor=actor(request))))
