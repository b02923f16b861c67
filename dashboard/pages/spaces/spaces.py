"""Spaces: what may enter a prompt, and what would."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.results import AssemblyResult
from contextopt.engine.validation import EngineError
from contextopt.people.models import Role
from contextopt.spaces.models import Space
from contextopt.spaces.spaces import create_space
from dashboard.kit.charts.shapes import bar_of_result, part_legend
from dashboard.kit.filters import SPACES_OFFERED
from dashboard.kit.inspector import ShownWarning, find_titles, read_ledger, show_warnings, split_text
from dashboard.kit.permissions import TeamRequest, get_space, page_for
from dashboard.kit.responses import newest_page, render_page
from dashboard.pages.guide import QUESTION
from dashboard.pages.spaces.filters import PreviewForm, RecordsForm
from dashboard.pages.spaces.forms import SpaceForm


@page_for(Role.VIEWER, "GET")
def spaces(request: TeamRequest) -> HttpResponse:
    return render_page(request, "dashboard/spaces.html", _spaces_context(request, SpaceForm()))


@page_for(Role.EDITOR, "POST")
def space_create(request: TeamRequest) -> HttpResponse:
    form = SpaceForm(request.POST)
    if form.is_valid():
        with form.refusals("slug"):
            space = create_space(team=request.team, data=form.value, actor=request.actor)
            messages.success(request, f"Space “{space.name}” created. Add records to it.")
            return redirect("dashboard:space", space.slug)
    return render_page(request, "dashboard/spaces.html", _spaces_context(request, form), status=422)


def _spaces_context(request: TeamRequest, form: SpaceForm) -> dict[str, Any]:
    return {"spaces": Space.objects.of(request.team).with_counts()[:SPACES_OFFERED], "form": form}


@page_for(Role.VIEWER, "GET", get_space)
def space(request: TeamRequest, found: Space) -> HttpResponse:
    form = RecordsForm(request.GET)
    context = {
        "space": found,
        "form": form,
        "preview_form": PreviewForm(auto_id="preview-%s"),
        "page": newest_page(form.select(found), "date", request.GET.get("before", "")),
        "query": form.query(),
        "question": QUESTION if "examples" in request.GET else "",
    }
    return render_page(request, "dashboard/space.html", context, partials=("records",))


@page_for(Role.VIEWER, "GET", get_space)
def space_preview(request: TeamRequest, found: Space) -> HttpResponse:
    """Show what would be sent now, without logging it."""
    form = PreviewForm(request.GET)
    context: dict[str, Any] = {"space": found, "form": form}
    if form.is_valid():
        context |= _preview(request, found, form)
    return render_page(request, "dashboard/space_preview.html", context, partials=("preview",))


@page_for(Role.REVIEWER, "POST", get_space)
def space_assemble(request: TeamRequest, found: Space) -> HttpResponse:
    """Log the context that the preview shows, and open it."""
    form = PreviewForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Not assembled. Check the fields of the preview.")
        return redirect("dashboard:space", found.slug)
    try:
        result = assemble_space(team_id=request.team.pk, request=form.to_request(found), actor=request.actor)
    except EngineError as error:
        messages.error(request, f"Not assembled. {error}")
        return redirect("dashboard:space", found.slug)
    return redirect("dashboard:assembly", result.id)


def _preview(request: TeamRequest, found: Space, form: PreviewForm) -> dict[str, Any]:
    try:
        result = assemble_space(
            team_id=request.team.pk, request=form.to_request(found), actor=request.actor, store=False
        )
    except EngineError as error:
        return {"refused": str(error)}
    return {
        "result": result,
        "bar": bar_of_result(result),
        "lines": split_text(result.text, list(result.outcome.order)),
        "reasons": result.stats.dropped_by_reason,
        "warnings": show_warnings(request, result.warnings, found.slug, result.asked.overrides),
        **(_whys(request, found, result) if form.cleaned_data["question"] else {}),
    }


def _whys(request: TeamRequest, found: Space, result: AssemblyResult) -> dict[str, Any]:
    """Return the records to send, best first, with the parts of their scores."""
    kept = [entry for entry in result.entries if entry["kept"]]
    weights = found.configs.active().get().settings.to_stored()
    return {
        "whys": read_ledger(kept, (), weights, find_titles(kept, request.team.pk)),
        "parts": part_legend(kept[0]["parts"] if kept else ()),
    }


def warnings_now(request: TeamRequest, found: Space) -> list[ShownWarning]:
    """Return the warnings of a context without a question, such as records older than the window."""
    form = PreviewForm({})
    form.full_clean()
    warnings: list[ShownWarning] = _preview(request, found, form).get("warnings", [])
    return warnings
