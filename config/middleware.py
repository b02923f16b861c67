"""Middleware of the pages and the API: compression, HEAD, and no caching of what a team sees."""

from collections.abc import Callable

from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

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


class PageGZipMiddleware(GZipMiddleware):
    """Compresses HTML. API responses stay as they are: most are small, and compressing them costs time."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not response.get("Content-Type", "").startswith("text/html"):
            return response
        return super().process_response(request, response)


class HeadMiddleware:
    """Answers HEAD like GET, without the body.

    This middleware covers pages, API and admin, whatever methods a view names. It must stand before
    everything that looks at the method.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        is_head = request.method == "HEAD"
        if is_head:
            request.method = "GET"
        response = self.get_response(request)
        if is_head:
            drop_body(response)
        if "GET" in (allowed := response.get("Allow", "").split(", ")):
            response["Allow"] = ", ".join(sorted({*allowed, "HEAD"}))
        return response


def drop_body(response: HttpResponseBase) -> None:
    """Drop the body and keep the headers, Content-Length included. An export is never started."""
    if isinstance(response, StreamingHttpResponse):
        response.streaming_content = ()
    else:
        response.content = b""  # type: ignore[attr-defined]
