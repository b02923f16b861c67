"""A client that refuses undocumented answers: an endpoint may only give statuses in its description."""

import re
from functools import cache
from typing import Any

from django.http import HttpResponse
from django.test import Client
from django.urls import Resolver404, resolve

from config.urls import api as ninja_api


class DocumentedClient(Client):
    """Calls the API like Django's client, and compares each answer's status with the description."""

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
    """Return the statuses in an endpoint's description, or None where there is no such endpoint."""
    try:
        route = resolve(path).route
    except Resolver404:
        return None
    operation = described_paths().get(f"/{route}".replace("<", "{").replace(">", "}"), {}).get(method.lower())
    return {int(status) for status in operation["responses"]} if operation else None


@cache
def described_paths() -> dict[str, Any]:
    """Return the operations by path, without converters in the parameters, to match routes."""
    paths: dict[str, Any] = ninja_api.get_openapi_schema(path_prefix="/api/")["paths"]
    return {re.sub(r"{\w+:(\w+)}", r"{\1}", path): operations for path, operations in paths.items()}
