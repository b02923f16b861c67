"""The log of changes, for admins to read."""

from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.db.models import QuerySet
from django.http import HttpResponse, StreamingHttpResponse
from pydantic_core import to_json

from contextopt.limits import ACTOR_MAX
from contextopt.people.audit import list_events
from contextopt.people.models import AuditEvent, Role, Team
from dashboard.kit.filters import FilterForm, MomentField
from dashboard.kit.permissions import TeamRequest, page_for
from dashboard.kit.responses import newest_page, render_page, stream_csv

TEMPLATE = "dashboard/audit.html"
# The subjects of actions: the word before the dot of an action's name.
ABOUT = (
    ("", "All changes"),
    ("config", "Space settings"),
    ("gateway", "Gateway"),
    ("profile", "Phases"),
    ("key", "Keys"),
    ("role", "Roles"),
    ("member", "Members"),
    ("invitation", "Invitations"),
    ("password", "Passwords"),
    ("user", "Accounts"),
    ("group", "Groups"),
    ("team", "Team"),
    ("space", "Spaces"),
    ("record", "Records"),
    ("memory", "Memories"),
    ("finding", "Findings"),
    ("repository", "Repositories"),
    ("review", "Review"),
    ("questions", "Question sets"),
    ("rules", "Memory and hand-off rules"),
    ("prices", "Model prices"),
    ("view", "Saved views"),
)
HEADER = ("at", "actor", "action", "subject", "before", "after")


class AuditForm(FilterForm):
    about = forms.ChoiceField(choices=ABOUT, required=False)
    actor = forms.CharField(required=False, max_length=ACTOR_MAX)
    start = MomentField(label="From")
    end = MomentField(is_end=True, label="To")

    def select(self, team: Team) -> QuerySet[AuditEvent]:
        """Return the matching events; none if the filters are invalid."""
        if not self.is_valid():
            return AuditEvent.objects.none()
        given = self.cleaned_data
        found = list_events(team, action=given["about"])
        if name := given["actor"].strip():
            found = found.filter(actor__in=[name, f"user:{name}", f"key:{name.removeprefix('key ')}"])
        return found.filter(**self.lookups(at__gte="start", at__lt="end"))


@page_for(Role.ADMIN, "GET")
def audit(request: TeamRequest) -> HttpResponse:
    form = AuditForm(request.GET)
    context = {
        "form": form,
        "query": form.query(),
        "page": newest_page(form.select(request.team), "at", request.GET.get("before", "")),
    }
    return render_page(request, TEMPLATE, context, partials=("events",))


@page_for(Role.ADMIN, "GET")
def audit_csv(request: TeamRequest) -> StreamingHttpResponse:
    found = AuditForm(request.GET).select(request.team).order_by("-at", "-id")
    return stream_csv("contextopt-changes", HEADER, _csv_rows(found, request.team.time_zone))


def _csv_rows(found: QuerySet[AuditEvent], time_zone: str) -> Iterator[list[Any]]:
    zone = ZoneInfo(time_zone)
    for event in found.iterator(chunk_size=1_000):
        values = (to_json(event.before).decode(), to_json(event.after).decode())
        yield [event.at.astimezone(zone).isoformat(), event.actor, event.action, event.subject, *values]
