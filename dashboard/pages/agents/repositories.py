"""Repositories: facts about their files, and the files that a task needs."""

from typing import Any

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from contextopt.models import Repository, RepositoryFile
from contextopt.repositories.graphs import load_graph, load_index
from contextopt.repositories.ranking import rank_repository
from dashboard.kit.access import TeamRequest, get_repository, team_page
from dashboard.kit.pages import render_page
from dashboard.pages.agents.filegraph import PARTS, choose_files, draw_imports
from dashboard.pages.agents.filters import RelevantForm

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
    found = get_repository(request, repository_id)
    form = RelevantForm(RelevantForm.with_default(request.GET) if "task" in request.GET else None)
    context: dict[str, Any] = {"repository": found, "form": form, "query": form.query()}
    if form.is_valid():
        context |= _chosen(found, form)
    if request.GET.get("show") == "gaps":
        context |= _gaps(found)
    return render_page(request, "dashboard/repository.html", context, partials=("chosen", "gaps"))


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
