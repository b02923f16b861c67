"""A client that refuses undocumented answers: every status that an endpoint gives is in its description."""

import re
from functools import cache
from typing import Any

from django.http import HttpResponse
from django.test import Client
from django.urls import Resolver404, resolve

from config.urls import api as ninja_api


class DocumentedClient(Client):
    """Calls the API as Django's client does, and compares each answer's status with the description."""

    def request(self, **request: Any) -> HttpResponse:
        response = super().request(**request)
        if self.raise_request_exception:
            documented = documented_statuses(request["REQUEST_METHOD"], request["PATH_INFO"])
            assert documented is None or response.status_code in documented, (
                f"{request['REQUEST_METHOD']} {request['PATH_INFO']} answers {response.status_code}, "
                f"which its description lacks"
            )
        return response


def documented_statuses(method: str, path: str) -> set[int] | None:
    """Return the statuses in the description of an endpoint, none where there is no such endpoint."""
    try:
        route = resolve(path).route
    except Resolver404:
        return None
    operation = described_paths().get(f"/{route}".replace("<", "{").replace(">", "}"), {}).get(method.lower())
    return {int(status) for status in operation["responses"]} if operation else None


@cache
def described_paths() -> dict[str, Any]:
    """Return the operations by address, their parameters without converters as routes have them."""
    paths: dict[str, Any] = ninja_api.get_openapi_schema(path_prefix="/api/")["paths"]
    return {re.sub(r"{\w+:(\w+)}", r"{\1}", path): operations for path, operations in paths.items()}
