"""Indexes of repositories from a git address or an archive: start one, look at it first, follow it."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.utils.dateparse import parse_datetime
from django.views.decorators.debug import sensitive_post_parameters
from django_htmx.http import HttpResponseClientRefresh

from contextopt.engine.code.graph.parsing import MAX_BYTES
from contextopt.importruns.models import ImportRun, ImportState
from contextopt.importruns.repositoryindex import own_source, source_of
from contextopt.importruns.runs import confirm
from contextopt.people.models import Role
from contextopt.repositories.checkouts import HISTORY_COMMITS
from contextopt.repositories.models import Repository
from contextopt.spaces.importing.archives import ARCHIVE_SUFFIXES, PACKED_BYTES_MAX
from dashboard.kit.permissions import TeamRequest, as_message, page_for
from dashboard.kit.responses import render_page
from dashboard.pages.spaces.imports import FileForm, GitForm, ImportPage, get_run, open_run, serve_forms

TEMPLATE = "dashboard/index_start.html"
RUN_TEMPLATE = "dashboard/index_run.html"
CHOICES_SHOWN = 200
NEW = ""


class ArchiveForm(FileForm):
    """An archive of a repository or a folder."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        field = self.fields["file"]
        field.label = "Archive"
        field.help_text = (
            "A zip or tar of a repository with its .git folder, or of a folder without one. "
            f"Up to {PACKED_BYTES_MAX // 2**20} MB. Settings and hooks in .git are not used."
        )
        field.widget.attrs["accept"] = ",".join(ARCHIVE_SUFFIXES)


class AddressForm(GitForm):
    """An address whose files are fetched, with some of its history."""

    newest = forms.IntegerField(
        required=False,
        label="Newest commits",
        min_value=1,
        max_value=HISTORY_COMMITS,
        help_text="Files that change together for similar tasks rank higher, if the history is known. "
        "Leave blank for the current files only, which is fastest.",
    )


class TargetForm(forms.Form):
    """Which repository an archive updates, if any. An address always updates its own."""

    source = forms.ChoiceField(required=False, label="Repository")

    def __init__(self, *args: Any, run: ImportRun, **options: Any) -> None:
        super().__init__(*args, **options)
        self.run = run
        stored = Repository.objects.of(run.team).exclude(source="")[:CHOICES_SHOWN]
        self.known = {each.source: each for each in stored if each.is_archive}
        choices = [(source, f"Update {each.name}") for source, each in self.known.items()]
        self.fields["source"].choices = [(NEW, "A new repository"), *choices]  # type: ignore[attr-defined]
        self.initial = {"source": own_source(run) if own_source(run) in self.known else NEW}

    def chosen(self) -> str:
        """Return the source of the repository to update, or one that no other has."""
        if source := self.cleaned_data["source"]:
            return str(source)
        own = own_source(self.run)
        numbers = (f"{own}-{number}" for number in range(2, len(self.known) + 3))
        return next(source for source in (own, *numbers) if source not in self.known)


@sensitive_post_parameters("token")
@page_for(Role.EDITOR, "GET POST")
def index_start(request: TeamRequest) -> HttpResponse:
    """Show the forms and the last indexes, or start one."""
    context = {"file_limit": MAX_BYTES // 1024}
    return serve_forms(request, request.team, ImportPage(TEMPLATE, ArchiveForm, AddressForm, context))


@page_for(Role.VIEWER, "GET", get_run)
def index_run(request: TeamRequest, found: ImportRun) -> HttpResponse:
    """Show how far an index is. While a process works on it, the page polls; then it loads again."""
    if not found.is_index:
        return open_run(found)
    if request.htmx and not found.is_working:
        return HttpResponseClientRefresh()
    is_choice = found.state == ImportState.READY and not found.is_git
    return _render_run(request, found, TargetForm(run=found) if is_choice else None)


def _render_run(
    request: TeamRequest, run: ImportRun, form: TargetForm | None, status: int = 200
) -> HttpResponse:
    known = Repository.objects.of(request.team).filter(source=source_of(run)).first()
    context = {
        "run": run,
        "report": run.report,
        "preview": run.preview,
        "figures": run.preview or run.report,
        "moment": parse_datetime(run.preview.get("moment", "")),
        "form": form,
        "known": known,
        "file_limit": MAX_BYTES // 1024,
    }
    return render_page(request, RUN_TEMPLATE, context, partials=("progress",), status=status)


@page_for(Role.EDITOR, "POST", get_run)
def index_confirm(request: TeamRequest, found: ImportRun) -> HttpResponse:
    """Index what is shown."""
    if not found.is_index or found.state != ImportState.READY:
        messages.info(request, f"This import is {found.get_state_display().lower()}.")
        return open_run(found)
    options: dict[str, str] = {}
    if not found.is_git:
        form = TargetForm(request.POST, run=found)
        if not form.is_valid():
            return _render_run(request, found, form, status=422)
        options = {"source": form.chosen()}
    with as_message(request):
        confirm(run=found, options=options)
    return open_run(found)
