"""Renders pages and their partials."""

from typing import Any

from django.contrib.messages import get_messages
from django.contrib.messages.storage.base import BaseStorage
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers
from django_htmx.http import push_url

from contextopt.inputs import INT_MAX, read_digits
from dashboard.kit.access import TeamRequest
from dashboard.kit.savedviews import SavedView

STOP_POLLING = 286
# An hour of polls every half minute. Then the page says that it has stopped.
MAX_POLLS = 120


def render_page(
    request: TeamRequest,
    template: str,
    context: dict[str, Any],
    *,
    partials: tuple[str, ...] = (),
    query: str | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render the page, or the partial that htmx requests by its target's id.

    If `query` is given, the first partial also puts this query string into the browser's address.
    """
    target = request.htmx.target if request.htmx else None
    name = f"{template}#{target}" if target in partials else template
    response = render(request, name, context, status=status)
    if query is not None and target == partials[0]:
        push_url(response, f"{request.path}?{query}".rstrip("?"))
    if request.htmx and request.method == "POST":
        _add_toasts(request, response)
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


def _add_toasts(request: TeamRequest, response: HttpResponse) -> None:
    """Add the messages to a partial; a whole page has shown them already."""
    messages = get_messages(request)
    if isinstance(messages, BaseStorage) and messages and not messages.used:
        response.write(render_to_string("dashboard/_toasts.html", {"swap": True}, request))


def count_polls(request: TeamRequest) -> dict[str, Any]:
    """Return the context of figures that poll: the number of the next poll, and whether there is one."""
    polls = read_digits(request.GET.get("polls", ""), INT_MAX) or 0
    return {"polls": polls + 1, "is_polling": polls < MAX_POLLS}


def saved_views(request: TeamRequest, page: str) -> QuerySet[SavedView]:
    """Return a page's saved views. The query runs only when the page shows them, not with every poll."""
    return SavedView.objects.visible_to(request.user, request.team).filter(page=page)
