"""The guided start: its strip, how it is dismissed, and example records for a first space."""

from datetime import timedelta

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from contextopt.people.models import Role
from contextopt.spaces.inputs import RecordIn
from contextopt.spaces.models import Space
from contextopt.spaces.records import upsert_records
from dashboard.kit.frame import IS_OVER, read_step
from dashboard.kit.permissions import TeamRequest, get_space, page_for
from dashboard.kit.responses import STOP_POLLING

QUESTION = "Why did the queue get stuck after the deploy?"
# Title, age in days, and notes.
EXAMPLES = (
    (
        "Queue stuck after the deploy",
        1,
        "Workers of the old release kept their lock. Restarting them one at a time freed it.",
    ),
    (
        "Invoices were sent twice",
        3,
        "A time-out made the client send again without an idempotency key. Every request has one now.",
    ),
    (
        "Decision: prices are decimals",
        5,
        "Floats lost cents in sums of a thousand lines. All prices are decimals, rounded at the end.",
    ),
    (
        "How we answer refunds",
        8,
        "Refund within 30 days without asking why. After that, offer credit for the unused months.",
    ),
    (
        "Slow search in large accounts",
        11,
        "The filter on tags had no index. With one, the slowest search takes 40 ms instead of 3 s.",
    ),
    (
        "On-call: what to look at first",
        12,
        "The length of the queue, the age of its oldest job, and the last deploy, in this order.",
    ),
)


@page_for(Role.VIEWER, "GET")
def start(request: TeamRequest) -> HttpResponse:
    """Show the strip again, until the first request has arrived. By itself it is no page."""
    if not request.htmx:
        return redirect("dashboard:overview")
    step = read_step(request)
    context = {"start": step, "was_started": step is None}
    status = STOP_POLLING if step is None else 200
    return render(request, "dashboard/_start.html#start", context, status=status)


@page_for(Role.VIEWER, "POST")
def start_dismiss(request: TeamRequest) -> HttpResponse:
    request.session[IS_OVER] = True
    messages.info(request, "Getting started is hidden until you log in again.")
    return redirect("dashboard:overview")


@page_for(Role.EDITOR, "POST", get_space)
def start_examples(request: TeamRequest, space: Space) -> HttpResponse:
    count = add_examples(space, actor=request.actor)
    messages.success(request, f"{count} example records added. Delete them whenever you like.")
    return redirect(f"{reverse('dashboard:space', args=[space.slug])}?examples=on")


def add_examples(space: Space, *, actor: str) -> int:
    """Add the example records to a space and return their number. Adding them again changes nothing."""
    now = timezone.now()
    rows = [
        RecordIn(
            title=title,
            notes=notes,
            date=now - timedelta(days=days),
            type="note",
            tags=["example"],
            source="examples",
            external_id=str(number),
        )
        for number, (title, days, notes) in enumerate(EXAMPLES, 1)
    ]
    upsert_records(space=space, rows=rows, actor=actor)
    return len(rows)
