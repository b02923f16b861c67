"""Saves and deletes views of a page's filters."""

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse

from contextopt.people.models import Role, Team
from dashboard.kit.filters import NAME_MAX, QUERY_MAX, SavedView, ViewPage, save_view
from dashboard.kit.permissions import TeamRequest, as_message, page_for, require_role
from dashboard.pages.assemblies.filters import AssembliesForm
from dashboard.pages.overview.overview import OverviewForm


@page_for(Role.VIEWER, "POST")
def view_save(request: TeamRequest) -> HttpResponse:
    form = SavedViewForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(str(error) for errors in form.errors.values() for error in errors))
        return redirect("dashboard:overview")
    given = form.cleaned_data
    if given["is_shared"]:
        require_role(request, Role.EDITOR)
    page, query = given["page"], clean_query(given["page"], given["query"], request.team)
    with as_message(request):
        save_view(
            team=request.team,
            owner=None if given["is_shared"] else request.user,
            page=page,
            name=given["name"],
            query=query,
            created_by=request.actor,
        )
        messages.success(request, f"Saved as “{given['name']}”.")
    return redirect(f"{reverse(f'dashboard:{page}')}?{query}")


@page_for(Role.VIEWER, "POST")
def view_delete(request: TeamRequest, view_id: int) -> HttpResponse:
    """Delete one's own view or, as an editor, one of the team's."""
    view = SavedView.objects.visible_to(request.user, request.team).filter(pk=view_id).first()
    if view is None:
        raise Http404("No such view.")
    if view.owner_id is None:
        require_role(request, Role.EDITOR)
    view.delete()
    messages.success(request, f"Deleted “{view.name}”.")
    return redirect(f"dashboard:{view.page}")


def clean_query(page: str, query: str, team: Team) -> str:
    """Return the query string with only the page's own filters."""
    form_type = OverviewForm if page == ViewPage.OVERVIEW else AssembliesForm
    return form_type(QueryDict(query[:QUERY_MAX]), team=team).query()[:QUERY_MAX]


class SavedViewForm(forms.Form):
    """A page's filters and the name to save them under."""

    page = forms.ChoiceField(choices=ViewPage.choices)
    query = forms.CharField(max_length=QUERY_MAX, required=False)
    name = forms.CharField(
        max_length=NAME_MAX,
        error_messages={"required": "Enter a name for the view."},
    )
    is_shared = forms.BooleanField(required=False)
