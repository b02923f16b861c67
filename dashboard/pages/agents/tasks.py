"""Tasks: the findings of their phases, and which were handed on or left out."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from contextopt.agents.handoffs import findings
from contextopt.agents.handoffs.inputs import AdvanceIn, CompressIn, ResolutionIn
from contextopt.agents.handoffs.models import RESOLUTION_MAX, Finding
from contextopt.agents.handoffs.status import TaskStatus, read_status
from contextopt.agents.models import HandoffPhase, Task
from contextopt.agents.tasks import create_task
from contextopt.people.models import Role
from dashboard.kit.permissions import (
    TeamRequest,
    as_404,
    as_message,
    get_task,
    page_for,
)
from dashboard.kit.responses import newest_page, render_page
from dashboard.pages.agents.charts import HandoffBar, handoff_figure
from dashboard.pages.agents.filters import HandoffTasksForm
from dashboard.pages.agents.forms import FindingForm, LabelsForm, TaskForm
from dashboard.pages.agents.handoffs import (
    CATEGORIES,
    FindingFigures,
    build_columns,
    build_handoff_tiles,
    read_finding_figures,
    read_preview,
)

TEMPLATE = "dashboard/task_findings.html"
# The form is on the same page as that of a new finding, which has fields of the same names.
LABELS_ID = "labels-%s"
ANSWERS_SHOWN = 20


@page_for(Role.VIEWER, "GET")
def tasks(request: TeamRequest) -> HttpResponse:
    form = HandoffTasksForm(request.GET, team=request.team)
    page = newest_page(form.select(), "created_at", request.GET.get("before", ""))
    figures = read_finding_figures(page.rows)
    context = {
        "form": form,
        "query": form.query(),
        "page": page,
        "rows": [(task, figures.get(task.pk, FindingFigures())) for task in page.rows],
    }
    return render_page(request, "dashboard/tasks.html", context, partials=("tasks",))


@page_for(Role.EDITOR, "GET POST")
def task_new(request: TeamRequest) -> HttpResponse:
    form = TaskForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with form.refusals("external_id"):
            made = create_task(team=request.team, data=form.value, actor=request.actor)
            messages.success(request, "Task created. Add the findings of the analysis.")
            return redirect("dashboard:task_findings", made.pk)
    status = 422 if form.is_bound else 200
    return render_page(request, "dashboard/task_new.html", {"form": form}, status=status)


@page_for(Role.VIEWER, "GET POST", get_task, to_post=Role.EDITOR)
def task_findings(request: TeamRequest, found: Task) -> HttpResponse:
    """Show the board; a POST adds a finding."""
    if request.method == "GET":
        return _render(request, found, FindingForm(task=found))
    form = FindingForm(request.POST, task=found)
    if form.is_valid():
        with form.refusals():
            added = findings.add_finding(
                team_id=request.team.pk, task_id=found.pk, data=form.value, actor=request.actor
            )
            marked = ", tagged critical" if added.is_tagged_critical else ""
            messages.success(request, f"Added {added.key}{marked}.")
            return redirect(f"{reverse('dashboard:task_findings', args=[found.pk])}#new-finding")
    return _render(request, found, form, status=422)


@page_for(Role.EDITOR, "POST", get_task)
def finding_check(request: TeamRequest, found: Task) -> HttpResponse:
    """Check a finding that is being written: show its errors and its size in tokens."""
    if not request.htmx:
        return redirect("dashboard:task_findings", found.pk)
    form = FindingForm(request.POST, task=found)
    checked: Finding | None = None
    if form.is_valid():
        with form.refusals():
            checked = findings.check_finding(task=found, data=form.value)
    context = {"task": found, "form": form, "checked": checked, "is_checked": True}
    return render_page(request, f"{TEMPLATE}#finding-check", context)


@page_for(Role.VIEWER, "GET", get_task)
def finding(request: TeamRequest, task: Task, number: int) -> HttpResponse:
    """Show a finding in full, however much of it was handed on."""
    return _render_finding(request, task, _find(task, number))


def _render_finding(
    request: TeamRequest,
    task: Task,
    found: Finding,
    form: LabelsForm | None = None,
    *,
    is_saved: bool = False,
) -> HttpResponse:
    labels = {"tags": ", ".join(found.tags), "depends_on": ", ".join(found.dependencies)}
    context = {
        "task": task,
        "finding": found,
        "labels": form or LabelsForm(initial=labels, auto_id=LABELS_ID),
        "earlier_answers": found.resolutions.order_by("-number")[1:ANSWERS_SHOWN] if found.decision else (),
        "is_saved": is_saved,
    }
    # HTMX does not swap in error responses.
    status = 422 if form and not request.htmx else 200
    return render_page(request, "dashboard/finding.html", context, partials=("finding-shown",), status=status)


@page_for(Role.EDITOR, "POST", get_task)
def finding_change(request: TeamRequest, task: Task, number: int) -> HttpResponse:
    """Set a finding's tags and dependencies; HTMX gets the finding again, a plain form the board."""
    found = _find(task, number)
    form = LabelsForm(request.POST, auto_id=LABELS_ID)
    if form.is_valid():
        with form.refusals():
            changed = findings.change_finding(
                team_id=request.team.pk, task_id=task.pk, number=number, data=form.value, actor=request.actor
            )
            if request.htmx:
                return _render_finding(request, task, changed, is_saved=True)
            messages.success(request, f"Updated {changed.key}.")
            return redirect("dashboard:task_findings", task.pk)
    return _render_finding(request, task, found, form)


@as_404()
def _find(task: Task, number: int) -> Finding:
    return findings.find_finding(task, number)


@page_for(Role.EDITOR, "POST", get_task)
def finding_resolve(request: TeamRequest, task: Task, number: int) -> HttpResponse:
    _find(task, number)
    answer = request.POST.get("answer", "").replace("\x00", "")[:RESOLUTION_MAX]
    if not answer.strip():
        messages.error(request, "Enter the answer to the decision.")
        return redirect("dashboard:task_findings", task.pk)
    data = ResolutionIn(answer=answer)
    with as_message(request), as_404():
        resolved = findings.resolve_finding(
            team_id=request.team.pk, task_id=task.pk, number=number, data=data, actor=request.actor
        )
        messages.success(request, f"Resolved {resolved.key}.")
    return redirect("dashboard:task_findings", task.pk)


@page_for(Role.EDITOR, "POST", get_task)
def task_compress(request: TeamRequest, found: Task) -> HttpResponse:
    phase = request.POST.get("phase", "")
    expected = phase if phase in HandoffPhase.values else None
    data = CompressIn.model_validate({"force": bool(request.POST.get("force")), "phase": expected})
    with as_message(request):
        compression = findings.compress_phase(
            team_id=request.team.pk, task_id=found.pk, data=data, actor=request.actor
        )
        messages.success(request, f"Compressed {compression.phase}.")
    return redirect("dashboard:task_findings", found.pk)


@page_for(Role.EDITOR, "GET POST", get_task)
def task_advance(request: TeamRequest, found: Task) -> HttpResponse:
    """Show what the next phase would get; a POST advances the task."""
    if request.method == "GET":
        return _confirm_advance(request, found)
    to = request.POST.get("to", "")
    expected = to if to in HandoffPhase.values else None
    data = AdvanceIn.model_validate({"force": bool(request.POST.get("force")), "to": expected})
    with as_message(request):
        advanced = findings.advance_phase(
            team_id=request.team.pk, task_id=found.pk, data=data, actor=request.actor
        )
        messages.success(request, f"The task is now in {advanced.phase}.")
    return redirect("dashboard:task_findings", found.pk)


def _confirm_advance(request: TeamRequest, found: Task) -> HttpResponse:
    following = HandoffPhase(found.phase).after
    if found.is_open and following:
        with as_message(request):
            context = {"task": found, "following": following, "preview": read_preview(found)}
            partials = ("advance-preview",)
            return render_page(request, "dashboard/task_advance.html", context, partials=partials)
    return redirect("dashboard:task_findings", found.pk)


def _render(request: TeamRequest, found: Task, form: FindingForm, status: int = 200) -> HttpResponse:
    state = read_status(found)
    columns = build_columns(state)
    now = HandoffPhase(found.phase)
    bars = _bars(state)
    context = {
        "task": found,
        "form": form,
        "columns": columns,
        "current": next(column for column in columns if column.place == "now"),
        "following": now.after,
        "handed": [column for column in columns if column.compression],
        "tiles": build_handoff_tiles(state),
        "categories": CATEGORIES[now],
        "bars": bars,
        "charts": {"handoffs": handoff_figure(bars).to_plotly_json()},
        "is_pending": any(
            column.compression and column.compression.brief_state == "pending" for column in columns
        ),
    }
    return render_page(request, TEMPLATE, context, partials=("board",), status=status)


def _bars(state: TaskStatus) -> list[HandoffBar]:
    return [
        HandoffBar(
            label=each.phase.label,
            full_tokens=each.compression.tokens_before if each.compression else each.findings_tokens,
            brief_tokens=each.compression.brief_tokens if each.compression else None,
            critical_tokens=each.compression.critical_tokens if each.compression else None,
        )
        for each in state.phases
    ]
