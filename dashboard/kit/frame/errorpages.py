"""Error pages."""

import sys
from collections.abc import Callable
from typing import cast

import structlog
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers

from contextopt.api.protocol.problems import OUT_OF_TIME, RETRY_AFTER_SECONDS
from contextopt.errors import Busy, NotFound, ServiceUnavailable, TooManyAttempts
from contextopt.locks import is_about_deleted, is_out_of_time
from contextopt.sql import DATABASE_UNREACHABLE
from dashboard.kit.permissions import TeamRequest, enter_team

UNAVAILABLE = (*DATABASE_UNREACHABLE, ServiceUnavailable)

log = structlog.get_logger(__name__)


class ErrorPageMiddleware:
    """Answers some errors with a page that explains them.

    These are a method that the address does not allow, too many attempts, and something that was deleted
    after the view had looked it up.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        is_empty = isinstance(response, HttpResponseNotAllowed) and not response.content
        return not_allowed(request, response.headers["Allow"]) if is_empty else response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, TooManyAttempts):
            return too_many_attempts(request, error)
        return deleted_meanwhile(request, error) if is_about_deleted(error) else None


def too_many_attempts(request: HttpRequest, error: TooManyAttempts) -> HttpResponse:
    response = render(request, "429.html", {"reason": str(error)}, status=429)
    response.headers["Retry-After"] = str(error.seconds)
    add_never_cache_headers(response)
    return response


def busy(error: Busy) -> HttpResponse:
    return _try_again({"reason": str(error)})


def _try_again(context: dict[str, str]) -> HttpResponse:
    # Rendered without the request: a context processor may be what failed.
    response = render(None, "503.html", context, status=503)
    response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    add_never_cache_headers(response)
    return response


def deleted_meanwhile(request: HttpRequest, error: Exception) -> HttpResponse:
    log.warning("page_found_it_deleted", path=request.path, exc_info=error)
    said = str(error) if isinstance(error, NotFound) else "It has since been deleted."
    return not_found(request, Http404(f"{said} Nothing was changed."))


def not_allowed(request: HttpRequest, allowed: str) -> HttpResponse:
    _find_team(request)
    response = render(request, "405.html", status=405)
    response.headers["Allow"] = allowed
    return response


def forbidden(request: HttpRequest, exception: PermissionDenied) -> HttpResponse:
    return render(request, "403.html", {"reason": str(exception)}, status=403)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001 Django's signature
    return render(request, "403_csrf.html", status=403)


def not_found(request: HttpRequest, exception: Http404) -> HttpResponse:
    """Show only our own reason: the resolver's is a dictionary of patterns, which is not for visitors."""
    _find_team(request)
    reason = exception.args[0] if exception.args and isinstance(exception.args[0], str) else ""
    return render(request, "404.html", {"reason": reason}, status=404)


def _find_team(request: HttpRequest) -> None:
    """Set the team if no team view did, so that the error page shows the navigation."""
    if request.user.is_authenticated and not hasattr(request, "membership"):
        enter_team(cast(TeamRequest, request))


def server_error(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 Django's signature
    """Answer errors that no view or middleware caught; Django calls this while it handles the error.

    A database that is away, or out of space or memory, gives a 503: a retry may succeed a little later.
    """
    error = sys.exception()
    if isinstance(error, UNAVAILABLE):
        return _try_again({"reason": OUT_OF_TIME} if is_out_of_time(error) else {})
    return render(None, "500.html", status=500)
