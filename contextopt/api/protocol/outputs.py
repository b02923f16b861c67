"""Builds the responses of endpoints."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from pydantic_core import to_json


def reply(data: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return data as JSON without validating our own output again."""
    return HttpResponse(
        to_json(data, inf_nan_mode="null"),
        status=status,
        content_type="application/json",
        headers=dict(headers or {}),
    )


def created(data: object, location: str) -> HttpResponse:
    return reply(data, status=201, headers={"Location": location})


def pick(item: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(item, name) for name in names}
