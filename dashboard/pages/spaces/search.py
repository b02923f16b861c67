"""Search over records and memories, with the reasons for each hit's rank."""

from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.kit.access import TeamRequest, team_page
from dashboard.kit.pages import render_page
from dashboard.pages.spaces.filters import SearchForm
from dashboard.pages.spaces.results import show_hits
from memory.search.search import find


@require_GET
@team_page
def search(request: TeamRequest) -> HttpResponse:
    """Show the results for the question and filters in the URL. Search results don't count as views."""
    form = SearchForm(request.GET, team=request.team)
    context: dict[str, Any] = {"form": form, "chosen_space": form.chosen_space}
    if form.is_valid() and form.cleaned_data["q"].strip():
        found = find(team=request.team, request=form.to_request(), now=timezone.now())
        hits = show_hits(found, form.chosen_space)
        context |= {"found": found, "hits": hits, "has_words": any(hit.has_words for hit in hits)}
    return render_page(request, "dashboard/search.html", context, partials=("results",))
