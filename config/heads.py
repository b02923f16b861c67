"""Answers HEAD wherever GET is answered."""

from collections.abc import Callable

from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase


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
