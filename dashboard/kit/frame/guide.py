"""The guided start: five steps from an empty team to an application's first context."""

from dataclasses import dataclass

from django.db.models import Exists, OuterRef
from django.http import HttpRequest
from django.urls import reverse

from contextopt.assemblies.models import Assembly
from contextopt.people.models import ApiKey, Membership, Role, Team
from contextopt.spaces.models import Record, Space

# Set in the session once the steps are done or dismissed, so that later pages run no query for them.
IS_OVER = "start_is_over"


@dataclass(frozen=True, slots=True)
class Step:
    """The step to take now: its number, 1 to 5, what to do, and where."""

    number: int
    title: str
    words: str
    url: str = ""
    verb: str = ""

    @property
    def done(self) -> int:
        return self.number - 1


STEPS = 5


def read_step(request: HttpRequest) -> Step | None:
    """Return the visitor's next step in one query; None for all but admins, and after the last."""
    membership: Membership | None = getattr(request, "membership", None)
    if membership is None or not membership.allows(Role.ADMIN) or request.session.get(IS_OVER):
        return None
    step = _next_step(membership.team)
    if step is None:
        request.session[IS_OVER] = True
    return step


def _next_step(team: Team) -> Step | None:
    mine = Space.objects.filter(team=OuterRef("pk"))
    facts = (
        Team.objects.filter(pk=team.pk)
        .annotate(
            has_record=Exists(Record.objects.filter(space__team=OuterRef("pk"))),
            has_assembly=Exists(Assembly.objects.filter(team=OuterRef("pk"))),
            has_key=Exists(ApiKey.objects.filter(team=OuterRef("pk"), revoked_at=None)),
            has_request=Exists(ApiKey.objects.filter(team=OuterRef("pk"), last_used_at__isnull=False)),
            space_slug=mine.order_by("id").values("slug")[:1],
        )
        .values_list("has_request", "has_key", "has_assembly", "has_record", "space_slug")
        .get()
    )
    has_request, has_key, has_assembly, has_record, slug = facts
    if has_request:
        return None
    space = reverse("dashboard:space", args=[slug]) if slug else reverse("dashboard:spaces")
    connect = reverse("dashboard:connect")
    if not slug:
        return Step(
            1, "Create a space", "A space holds the records that contexts are built from.", space, "Spaces"
        )
    if not has_record:
        return Step(
            2, "Add records", "Import a file, add a record, or take the examples.", space, "Open the space"
        )
    if not has_assembly:
        words = "Ask a question in the preview and press Assemble. You will see what would be sent, and why."
        return Step(3, "Ask a question", words, space, "Open the space")
    if not has_key:
        return Step(
            4, "Create an API key", "Your application uses it to request contexts.", connect, "Connect"
        )
    return Step(
        5,
        "Send the first request",
        "Copy the snippet and run it. This page updates when the request arrives.",
        connect,
        "Connect",
    )
