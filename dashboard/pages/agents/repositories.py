"""Repositories: facts about their files, and the files that a task needs."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_POST

from contextopt.agents.standing import attach_document, detach_document
from contextopt.lookups import find_one
from contextopt.models import Repository, RepositoryFile, Role, StandingDocument
from contextopt.repositories.graphs import load_graph, load_index
from contextopt.repositories.ranking import rank_repository
from dashboard.kit.access import TeamRequest, as_404, get_repository, require_role, team_page
from dashboard.kit.pages import render_page
from dashboard.pages.agents.filegraph import PARTS, choose_files, draw_imports
from dashboard.pages.agents.filters import RelevantForm
from dashboard.pages.agents.forms import StandingDocumentForm

REPOSITORIES_SHOWN = 500
GAPS_SHOWN = 200


@require_GET
@team_page
def repositories(request: TeamRequest) -> HttpResponse:
    found = Repository.objects.of(request.team)[:REPOSITORIES_SHOWN]
    return render_page(request, "dashboard/repositories.html", {"repositories": found})


@require_GET
@team_page
def repository(request: TeamRequest, repository_id: int) -> HttpResponse:
    """Show a repository; with a task, also the files that it needs and why."""
    return _render(request, get_repository(request, repository_id), StandingDocumentForm())


@require_POST
@team_page
def document_attach(request: TeamRequest, repository_id: int) -> HttpResponse:
    """Attach a standing document, or replace the one with the same title."""
    found = get_repository(request, repository_id)
    require_role(request, Role.EDITOR)
    form = StandingDocumentForm(request.POST, repository=found.name)
    if not form.is_valid():
        return _render(request, found, form, status=422)
    with form.refusals():
        attached = attach_document(team=request.team, data=form.value, actor=request.actor)
        messages.success(request, "Document attached." if attached.is_new else "Document replaced.")
        return redirect("dashboard:repository", repository_id)
    return _render(request, found, form, status=409)


@require_POST
@team_page
def document_detach(request: TeamRequest, repository_id: int, document_id: int) -> HttpResponse:
    found = get_repository(request, repository_id)
    rows = StandingDocument.objects.of(request.team.pk, found.name).filter(pk=document_id)
    with as_404():
        document = find_one(rows, f"document {document_id}")
    require_role(request, Role.EDITOR)
    detach_document(document=document, actor=request.actor)
    messages.success(request, f"“{document.title[:60]}” detached.")
    return redirect("dashboard:repository", repository_id)


def _render(
    request: TeamRequest, found: Repository, attaching: StandingDocumentForm, status: int = 200
) -> HttpResponse:
    form = RelevantForm(RelevantForm.with_default(request.GET) if "task" in request.GET else None)
    context: dict[str, Any] = {
        "repository": found,
        "form": form,
        "query": form.query(),
        "attaching": attaching,
    }
    if not request.htmx:
        context["documents"] = StandingDocument.objects.of(request.team.pk, found.name)
    if form.is_valid():
        context |= _chosen(found, form)
    if request.GET.get("show") == "gaps":
        context |= _gaps(found)
    partials = ("chosen", "gaps")
    return render_page(request, "dashboard/repository.html", context, partials=partials, status=status)


def _chosen(found: Repository, form: RelevantForm) -> dict[str, Any]:
    relevant = rank_repository(found, form.to_request())
    files = choose_files(relevant.ranked, relevant.packed, load_index(found).index.graph.imports)
    present = {name for file in relevant.ranked for name in file.parts}
    return {
        "relevant": relevant,
        "files": files,
        "picture": draw_imports(files),
        "parts": [(kind, words) for name, (words, kind) in PARTS.items() if name in present],
    }


def _gaps(found: Repository) -> dict[str, Any]:
    """List the gaps in the graph: imports that lead nowhere, and files that were not read."""
    skipped = RepositoryFile.objects.of(found).exclude(skipped="").values_list("path", "skipped")
    return {
        "shows_gaps": True,
        "unresolved": load_graph(found).unresolved[:GAPS_SHOWN],
        "skipped": list(skipped[:GAPS_SHOWN]),
    }
