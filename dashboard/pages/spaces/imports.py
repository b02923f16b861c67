"""Imports into a space: a file or a git address, a look at its first rows, and the report."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django_htmx.http import HttpResponseClientRefresh

from contextopt.errors import Conflict, InvalidInput
from contextopt.importruns.models import ImportRun, ImportState
from contextopt.importruns.remotes import URL_MAX
from contextopt.importruns.runs import (
    PART_BYTES,
    add_part,
    cancel,
    confirm,
    end_upload,
    find_run,
    prepare_again,
    start_fetch,
    start_upload,
)
from contextopt.people.models import Role, Team
from contextopt.spaces.importing.archives import ARCHIVE_SUFFIXES, PACKED_BYTES_MAX
from contextopt.spaces.importing.charsets import check_encoding
from contextopt.spaces.importing.csvfiles import AUTHOR
from contextopt.spaces.importing.formats import FORMATS, JSON_SUFFIXES, TABLE_SUFFIXES
from contextopt.spaces.importing.markdown import SUFFIXES
from contextopt.spaces.importing.pipeline import RECORD_FIELDS
from contextopt.spaces.importing.rows import LEFT_OUT
from contextopt.spaces.models import Space
from dashboard.kit.permissions import TeamRequest, as_404, as_message, get_space, page_for
from dashboard.kit.responses import render_page
from dashboard.pages.spaces.spaces import warnings_now

TEMPLATE = "dashboard/import.html"
RUN_TEMPLATE = "dashboard/import_run.html"
RUNS_SHOWN = 10
NEWEST_MAX = 1_000_000
ACCEPTED = (*TABLE_SUFFIXES, *JSON_SUFFIXES, *SUFFIXES, *ARCHIVE_SUFFIXES, ".gz")
ENCODINGS = {
    "": "Recognised",
    "utf-8": "UTF-8",
    "utf-16": "UTF-16",
    "cp1252": "Western (Windows-1252)",
    "iso8859-15": "Western (ISO 8859-15)",
    "cp1250": "Central European (Windows-1250)",
    "cp1251": "Cyrillic (Windows-1251)",
    "cp1253": "Greek (Windows-1253)",
    "cp1254": "Turkish (Windows-1254)",
    "shift_jis": "Japanese (Shift JIS)",
    "euc_jp": "Japanese (EUC-JP)",
    "gb18030": "Chinese (GB 18030)",
    "big5": "Chinese (Big5)",
    "cp949": "Korean (CP949)",
}
DATE_ORDERS = {"": "As the file shows", "day": "Day first", "month": "Month first"}
IS_MONTH_FIRST = {"": None, "day": False, "month": True}


class FileForm(forms.Form):
    """A file to import. A script sends large ones in parts."""

    file = forms.FileField(
        help_text="Tables, JSON, exports of ChatGPT, Claude or Slack, sessions of Claude Code or Codex, "
        f"notes, or a zip or tar of them. Up to {PACKED_BYTES_MAX // 2**20} MB.",
        widget=forms.FileInput(attrs={"accept": ",".join(ACCEPTED), "data-part-bytes": PART_BYTES}),
        error_messages={"required": "Choose a file. Without JavaScript, it can have up to 32 MB."},
    )


class GitForm(forms.Form):
    """An address to fetch from. The token is used once and never stored."""

    url = forms.CharField(
        label="Address", max_length=URL_MAX, help_text="Such as https://git.example.com/team/project.git"
    )
    token = forms.CharField(
        required=False,
        max_length=1_000,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="Only for a private repository. It is used for this fetch and not stored.",
    )
    newest = forms.IntegerField(
        required=False,
        label="Newest commits",
        min_value=1,
        max_value=NEWEST_MAX,
        help_text="Leave blank for the whole history.",
    )

    def clean_token(self) -> str:
        token = str(self.cleaned_data["token"])
        if not (token.isascii() and token.isprintable()):
            raise forms.ValidationError("has characters that no header can carry")
        return token


class ReadingForm(forms.Form):
    """How an upload is read, and what becomes of its columns."""

    format = forms.ChoiceField(required=False)
    encoding = forms.ChoiceField(required=False, choices=list(ENCODINGS.items()))
    dates = forms.ChoiceField(
        required=False, choices=list(DATE_ORDERS.items()), label="Dates such as 03/04/2026"
    )

    def __init__(self, *args: Any, run: ImportRun, **options: Any) -> None:
        super().__init__(*args, **options)
        recognised = {"": "Several, by file"} if not run.preview.get("format") else {}
        choices = {name: each.label for name, each in FORMATS.items()}
        self.fields["format"].choices = [*recognised.items(), *choices.items()]  # type: ignore[attr-defined]
        self.columns: Mapping[str, str] = run.preview.get("columns", {})
        kept = run.options.get("encoding", "")
        order = {value: name for name, value in IS_MONTH_FIRST.items()}[run.options.get("month_first")]
        self.initial = {"format": run.preview.get("format", ""), "encoding": kept, "dates": order}
        targets = [("metadata", "metadata"), (LEFT_OUT, "leave out"), (AUTHOR, "author (in the metadata)")]
        targets += [(name, name) for name in sorted(RECORD_FIELDS - {"metadata"})]
        for number, (name, target) in enumerate(self.columns.items()):
            self.fields[f"column_{number}"] = forms.ChoiceField(label=name, choices=targets, initial=target)

    @property
    def mapping(self) -> list[forms.BoundField]:
        """The fields of the columns."""
        return [self[f"column_{number}"] for number in range(len(self.columns))]

    @property
    def reading(self) -> list[forms.BoundField]:
        """The fields of the whole upload. Only text files have an encoding and dates to choose."""
        return [self["format"], self["encoding"], self["dates"]]

    def read_options(self) -> dict[str, Any]:
        """Return the options as an import stores them."""
        given = self.cleaned_data
        chosen = {name: given[f"column_{number}"] for number, name in enumerate(self.columns)}
        return {
            "encoding": check_encoding(given["encoding"]),
            "month_first": IS_MONTH_FIRST[given["dates"]],
            "columns": chosen,
        }

    def check_columns(self) -> None:
        """Add an error if the columns give no records, or one field twice."""
        fields = [
            name for name in self.read_options()["columns"].values() if name not in ("metadata", LEFT_OUT)
        ]
        if self.columns and "title" not in fields:
            self.add_error(None, "Choose the column that holds the title.")
        for name in sorted({name for name in fields if fields.count(name) > 1}):
            self.add_error(None, f"Only one column can become {name}.")


@dataclass(frozen=True, slots=True)
class ImportPage:
    """A page that starts imports: its template, its forms, and what else it shows."""

    template: str
    file_form: type[FileForm]
    git_form: type[GitForm]
    context: Mapping[str, Any]


@as_404()
def get_run(request: TeamRequest, run_id: int) -> ImportRun:
    return find_run(request.team, run_id)


@sensitive_post_parameters("token")
@page_for(Role.EDITOR, "GET POST", get_space)
def space_import(request: TeamRequest, found: Space) -> HttpResponse:
    """Show the forms and the last imports, or start one."""
    context = {"space": found, "formats": FORMATS.values()}
    return serve_forms(request, found, ImportPage(TEMPLATE, FileForm, GitForm, context))


def serve_forms(request: TeamRequest, into: Space | Team, page: ImportPage) -> HttpResponse:
    """Show the forms of a page and its last imports, or start an import of a file or an address."""
    if request.method == "GET":
        return _render_forms(request, into, page)
    if "url" in request.POST:
        git_form = page.git_form(request.POST)
        run = _start_fetch(request, into, git_form) if git_form.is_valid() else None
        return open_run(run) if run else _render_forms(request, into, page, git_form=git_form)
    if "size" in request.POST:
        return _start_parts(request, into)
    form = page.file_form(request.POST, request.FILES)
    run = _take_file(request, into, form) if form.is_valid() else None
    return open_run(run) if run else _render_forms(request, into, page, form=form)


def page_of_run(run: ImportRun) -> str:
    """Return the address of the page that shows how far an import is."""
    return reverse("dashboard:index_run" if run.is_index else "dashboard:import_run", args=[run.pk])


def open_run(run: ImportRun) -> HttpResponse:
    return redirect(page_of_run(run))


def _render_forms(
    request: TeamRequest,
    into: Space | Team,
    page: ImportPage,
    *,
    form: FileForm | None = None,
    git_form: GitForm | None = None,
) -> HttpResponse:
    runs = ImportRun.objects.into(into).newest_first().defer("preview", "report")[:RUNS_SHOWN]
    shown = {"form": form or page.file_form(), "git_form": git_form or page.git_form(), "runs": runs}
    status = 422 if form or git_form else 200
    return render_page(request, page.template, {**page.context, **shown}, status=status)


def _start_fetch(request: TeamRequest, into: Space | Team, form: GitForm) -> ImportRun | None:
    given = form.cleaned_data
    try:
        return start_fetch(
            into=into, url=given["url"], token=given["token"], newest=given["newest"], actor=request.actor
        )
    except InvalidInput as error:
        form.add_error("url", error.problems[0].message)
    except Conflict as error:
        form.add_error(None, str(error))
    return None


def _start_parts(request: TeamRequest, into: Space | Team) -> HttpResponse:
    """Start an upload whose parts a script sends, and say where to."""
    try:
        size = int(request.POST["size"])
        run = start_upload(into=into, name=request.POST.get("name", ""), size=size, actor=request.actor)
    except (ValueError, InvalidInput, Conflict) as error:
        return JsonResponse({"error": str(error)}, status=422)
    parts = reverse("dashboard:import_part", args=[run.pk])
    return JsonResponse({"parts": parts, "page": page_of_run(run)})


def _take_file(request: TeamRequest, into: Space | Team, form: FileForm) -> ImportRun | None:
    file: UploadedFile[Any] = form.cleaned_data["file"]
    try:
        run = start_upload(into=into, name=str(file.name), size=file.size or 0, actor=request.actor)
        for number, content in enumerate(file.chunks(PART_BYTES)):
            add_part(run=run, number=number, content=content)
        end_upload(run=run)
    except InvalidInput as error:
        form.add_error("file", error.problems[0].message)
    except Conflict as error:
        form.add_error(None, str(error))
    else:
        return run
    return None


@page_for(Role.EDITOR, "POST", get_run)
def import_part(request: TeamRequest, found: ImportRun) -> HttpResponse:
    """Store a part of an upload. The last one has the parameter `last`."""
    part = request.FILES.get("part")
    try:
        if part is None:
            raise InvalidInput.of("part", "is missing")
        number = int(request.POST.get("number", ""))
        add_part(run=found, number=number, content=part.read())
        if "last" in request.POST:
            end_upload(run=found)
    except (ValueError, InvalidInput, Conflict) as error:
        return JsonResponse({"error": str(error)}, status=422)
    return JsonResponse({})


@page_for(Role.VIEWER, "GET", get_run)
def import_run(request: TeamRequest, found: ImportRun) -> HttpResponse:
    """Show how far an import is. While a process works on it, the page polls; then it loads again."""
    if found.is_index:
        return open_run(found)
    if request.htmx and not found.is_working:
        return HttpResponseClientRefresh()
    form = ReadingForm(run=found) if found.state == ImportState.READY else None
    return _render_run(request, found, form)


def _render_run(
    request: TeamRequest, run: ImportRun, form: ReadingForm | None, status: int = 200
) -> HttpResponse:
    preview = run.preview
    rows = preview.get("rows", [])
    names = list(dict.fromkeys(name for row in rows for name in row))
    is_done = run.state == ImportState.DONE
    context = {
        "run": run,
        "space": run.space,
        "report": run.report,
        "form": form,
        "format": FORMATS[preview["format"]] if preview.get("format") else None,
        "names": names,
        "rows": [[row.get(name, "") for name in names] for row in rows],
        "preview": preview,
        "warnings": warnings_now(request, run.space) if is_done and run.space and not request.htmx else [],
    }
    return render_page(request, RUN_TEMPLATE, context, partials=("progress",), status=status)


@page_for(Role.EDITOR, "POST", get_run)
def import_start(request: TeamRequest, found: ImportRun) -> HttpResponse:
    """Import an upload as it is shown, or show it again as it is read now."""
    if found.is_index or found.state != ImportState.READY:
        messages.info(request, f"This import is {found.get_state_display().lower()}.")
        return open_run(found)
    form = ReadingForm(request.POST, run=found)
    is_again = "again" in request.POST
    if form.is_valid() and not is_again:
        form.check_columns()
    if not form.is_valid():
        return _render_run(request, found, form, status=422)
    with as_message(request):
        if is_again or form.cleaned_data["format"] != found.preview.get("format"):
            # Columns of another format have other names.
            prepare_again(run=found, format=form.cleaned_data["format"], options=form.read_options())
        else:
            confirm(run=found, options=form.read_options())
    return open_run(found)


@page_for(Role.EDITOR, "POST", get_run)
def import_cancel(request: TeamRequest, found: ImportRun) -> HttpResponse:
    with as_message(request, "Not cancelled."):
        cancel(run=found)
        messages.success(request, "Cancelled. The upload was deleted; what was written stays.")
    return open_run(found)
