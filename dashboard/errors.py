"""The pages for what went wrong."""

from typing import cast

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from dashboard.access import TeamRequest, enter_team


def forbidden(request: HttpRequest, exception: PermissionDenied) -> HttpResponse:
    return render(request, "403.html", {"reason": str(exception)}, status=403)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001 Django's signature
    return render(request, "403_csrf.html", status=403)


def not_found(request: HttpRequest, exception: Http404) -> HttpResponse:
    """Show our own reason; the resolver's own is a dictionary of patterns, which is not for visitors."""
    if request.user.is_authenticated and not hasattr(request, "membership"):
        # No view of a team answered, and yet the visitor should find the way back.
        enter_team(cast(TeamRequest, request))
    reason = exception.args[0] if exception.args and isinstance(exception.args[0], str) else ""
    return render(request, "404.html", {"reason": reason}, status=404)


def server_error(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 Django's signature
    # No request goes in: a context processor may be what failed.
    return render(None, "500.html", status=500)
