"""Versions of a space's settings."""

from typing import Annotated, Any

from django.db import transaction
from django.http import HttpResponse
from ninja import Path, Query, Router
from pydantic import Field

from contextopt.api.access import ADMIN, READ, ApiRequest, actor, find_space
from contextopt.api.outputs import ConfigOut, ConfigPage, config_json, created, reply
from contextopt.api.paging import PageQuery, by_number, list_page
from contextopt.engine import get_tokenizer
from contextopt.errors import InvalidInput, NotFound
from contextopt.inputs import ConfigIn, Slug
from contextopt.models import ContextConfig, Space

router = Router(tags=["Settings"])
BY_VERSION = by_number("config", "version")
# The setting that may be null: none means the sum of the parts.
NULLABLE = frozenset({"total_tokens"})

Version = Annotated[int, Field(ge=1, le=2**31 - 1)]


def find_config(space: Space, version: int) -> ContextConfig:
    config = ContextConfig.objects.filter(space=space, version=version).first()
    if config is None:
        raise NotFound(f"There is no version {version} of the settings of {space.slug!r}.")
    return config


def publish_config(*, space: Space, data: ConfigIn, created_by: str) -> ContextConfig:
    """Add the next version and make it the active one, when an assembly could work with it.

    Raises:
        InvalidInput, InvalidValue, UnknownEncoding: a setting is none that can be used; the error names it.
    """
    given = data.model_dump(exclude_unset=True, exclude={"note"})
    for name, value in given.items():
        if value is None and name not in NULLABLE:
            raise InvalidInput.of(name, "must not be null; leave it out to carry it over")
    with transaction.atomic():
        Space.objects.select_for_update().get(pk=space.pk)
        check_settings(ContextConfig.objects.active().get(space=space), given)
        return ContextConfig.objects.publish(space=space, created_by=created_by, note=data.note, **given)


def check_settings(current: ContextConfig, given: dict[str, Any]) -> None:
    """Refuse what the engine would refuse, the given settings taken together with the carried ones."""
    config = current.to_value(**given)
    get_tokenizer(config.encoding)
    if config.total_tokens is not None and config.total_tokens < config.response_tokens:
        raise InvalidInput.of("total_tokens", "must be at least response_tokens")


@transaction.atomic
def activate_config(*, space: Space, version: int) -> ContextConfig:
    """Make an earlier version the active one again. The version itself does not change.

    Raises:
        NotFound: the space has no such version.
    """
    Space.objects.select_for_update().get(pk=space.pk)
    config = find_config(space, version)
    ContextConfig.objects.filter(space=space).active().exclude(pk=config.pk).update(is_active=False)
    ContextConfig.objects.filter(pk=config.pk).update(is_active=True)
    config.is_active = True
    return config


@router.get("/spaces/{slug}/configs", auth=READ, response=ConfigPage, summary="List versions of the settings")
def list_configs(request: ApiRequest, slug: Path[Slug], page: Query[PageQuery]) -> HttpResponse:
    """Newest first; one of them is active."""
    configs = ContextConfig.objects.filter(space=find_space(request, slug))
    return reply(list_page(configs, BY_VERSION, page, config_json))


@router.post(
    "/spaces/{slug}/configs",
    auth=ADMIN,
    response={201: ConfigOut},
    summary="Publish a version of the settings",
)
def create_config(request: ApiRequest, slug: Path[Slug], data: ConfigIn) -> HttpResponse:
    """The new version becomes the active one; what is not given is carried over."""
    space = find_space(request, slug)
    config = publish_config(space=space, data=data, created_by=actor(request))
    return created(config_json(config), f"/api/v1/spaces/{space.slug}/configs/{config.version}")


@router.get("/spaces/{slug}/configs/{version}", auth=READ, response=ConfigOut, summary="Read a version")
def read_config(request: ApiRequest, slug: Path[Slug], version: Path[Version]) -> HttpResponse:
    return reply(config_json(find_config(find_space(request, slug), version)))


@router.post(
    "/spaces/{slug}/configs/{version}/activate", auth=ADMIN, response=ConfigOut, summary="Activate a version"
)
def activate(request: ApiRequest, slug: Path[Slug], version: Path[Version]) -> HttpResponse:
    """Goes back to an earlier version as it was, under its own number."""
    space = find_space(request, slug)
    return reply(config_json(activate_config(space=space, version=version)))
