"""Retries: what agents that try again are sent, and why they had to."""

from datetime import timedelta

from django.db.models import F, Func, QuerySet, TextField, Value
from django.db.models.functions import Length
from django.http import HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from contextopt.inputs import read_digits
from contextopt.models import Attempt, AttemptState, Task
from dashboard.kit.access import TeamRequest, get_task, team_page
from dashboard.kit.pages import render_page
from dashboard.kit.paging import newest_page
from dashboard.pages.agents.attempts import (
    TaskFigures,
    attempt_rows,
    build_retry_tiles,
    read_task_figures,
    summarise,
)
from dashboard.pages.agents.filters import TasksForm

SUMMARY_DAYS = 30
ATTEMPTS_SHOWN = 20
# An error that lost only the whitespace around it is not cut.
STRIPPED_ERROR = Func(F("error"), Value(" \r\n"), function="btrim", output_field=TextField())


@require_GET
@team_page
def retries(request: TeamRequest) -> HttpResponse:
    form = TasksForm(request.GET, team=request.team)
    page = newest_page(form.select(), "created_at", request.GET.get("before", ""))
    figures = read_task_figures(page.rows)
    since = timezone.now() - timedelta(days=SUMMARY_DAYS)
    found = summarise(Attempt.objects.filter(task__team=request.team, created_at__gte=since))
    context = {
        "form": form,
        "query": form.query(),
        "page": page,
        "rows": [(task, figures.get(task.pk, TaskFigures())) for task in page.rows],
        "summary": found,
        "tiles": build_retry_tiles(found),
        "days": SUMMARY_DAYS,
    }
    return render_page(request, "dashboard/retries.html", context, partials=("tasks",))


@require_GET
@team_page
def retry(request: TeamRequest, task_id: int) -> HttpResponse:
    task = get_task(request, task_id)
    figures = read_task_figures([task]).get(task.pk, TaskFigures())
    until = read_digits(request.GET.get("until", "")) or 0
    rows = attempt_rows(_attempts(task, until), timezone.now())
    context = {
        "task": task,
        "figures": figures,
        "rows": rows,
        "first": rows[0].attempt.number if rows else 0,
        # A page of past attempts does not change.
        "is_waiting": not until and any(row.attempt.state == AttemptState.WAITING for row in rows),
    }
    return render_page(request, "dashboard/retry.html", context, partials=("attempts",))


def _attempts(task: Task, until: int) -> list[Attempt]:
    """Return the latest attempts up to a number, in order, without the full text of their errors."""
    found: QuerySet[Attempt] = task.attempts.defer("error").annotate(error_chars=Length(STRIPPED_ERROR))
    if until:
        found = found.filter(number__lte=until)
    return list(reversed(found.order_by("-number")[:ATTEMPTS_SHOWN]))
