"""Renders pages, their partials, and pages of newest-first lists, and streams exports."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.messages import get_messages
from django.contrib.messages.storage.base import BaseStorage
from django.db.models import Model, QuerySet
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers
from django_htmx.http import push_url
from pydantic_core import to_json

from contextopt.api.protocol.outputs import csv_lines
from contextopt.errors import InvalidInput
from contextopt.inputs import INT_MAX, read_digits
from contextopt.paging import by_moment
from dashboard.kit.filters import SavedView
from dashboard.kit.permissions import TeamRequest

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
        # A partial also gets the messages; a whole page has shown them already.
        messages = get_messages(request)
        if isinstance(messages, BaseStorage) and messages and not messages.used:
            response.write(render_to_string("dashboard/_toasts.html", {"swap": True}, request))
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


def count_polls(request: TeamRequest) -> dict[str, Any]:
    """Return the context of figures that poll: the number of the next poll, and whether there is one."""
    polls = read_digits(request.GET.get("polls", ""), INT_MAX) or 0
    return {"polls": polls + 1, "is_polling": polls < MAX_POLLS}


def saved_views(request: TeamRequest, page: str) -> QuerySet[SavedView]:
    """Return a page's saved views. The query runs only when the page shows them, not with every poll."""
    return SavedView.objects.visible_to(request.user, request.team).filter(page=page)


PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class Page[Row: Model]:
    """One page of rows; `older` is the cursor of the next page, empty on the last."""

    rows: Sequence[Row]
    older: str
    is_first: bool


def newest_page[Row: Model](
    rows: QuerySet[Row], moment: str, cursor: str, size: int = PAGE_ROWS
) -> Page[Row]:
    """Return the rows after the cursor, ordered by the time field `moment` and then id, newest first.

    An unreadable cursor is ignored: links get cut off, and page 1 is a fair answer.
    """
    key = _read_key(cursor)
    shown, older = by_moment("page", moment).page(rows, key, size)
    return Page(shown, older or "", key is None)


def cursor_moment(cursor: str) -> datetime | None:
    """Return the cursor's moment; None if it cannot be read."""
    key = _read_key(cursor)
    return key[0] if key else None


def _read_key(cursor: str) -> tuple[Any, ...] | None:
    try:
        return by_moment("page", "").decode(cursor)
    except InvalidInput:
        return None


def stream_csv(name: str, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        csv_lines(header, rows),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.csv"'},
    )


def stream_jsonl(name: str, rows: Iterable[Mapping[str, Any]]) -> StreamingHttpResponse:
    """Send one object per line; dates and times are in ISO 8601."""
    return StreamingHttpResponse(
        (to_json(row) + b"\n" for row in rows),
        content_type="application/jsonl; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.jsonl"'},
    )
