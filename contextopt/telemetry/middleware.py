"""Continues the trace of the API's caller, so that contexts appear in it."""

from collections.abc import Callable

from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from contextopt.telemetry.exporter import is_on
from contextopt.telemetry.spans import read_parent


class TraceMiddleware:
    """Makes the caller's span the parent of what is recorded during the request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        if not is_on():
            raise MiddlewareNotUsed
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "traceparent" not in request.headers:
            return self.get_response(request)
        from opentelemetry import context

        token = context.attach(read_parent(request.headers))
        try:
            return self.get_response(request)
        finally:
            context.detach(token)
