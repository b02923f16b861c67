"""Keeps what a team sees out of every cache."""

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from contextopt.api.protocol.transport import API_PREFIX

# The API's description, which is the same for everybody.
PUBLIC = ("/api/openapi.json", "/api/docs")
NO_STORE = "no-store"


class NoStoreMiddleware:
    """Forbids browsers and proxies to store pages, exports and API responses.

    A stored page would be shown again after the log-out, or after its records were purged. Static files never
    come here.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if request.path_info not in PUBLIC and NO_STORE not in response.get("Cache-Control", ""):
            is_api = request.path_info.startswith(API_PREFIX)
            response["Cache-Control"] = NO_STORE if is_api else f"private, {NO_STORE}"
        return response
