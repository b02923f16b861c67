"""Pages that import an uploaded file, read as commands read files on disk, and report on it."""

from collections.abc import Callable, Mapping
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO

from django import forms
from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import redirect

from contextopt.spaces.importing.files import open_input
from contextopt.spaces.importing.pipeline import ImportReport
from contextopt.spaces.importing.rows import UnusableSource
from dashboard.kit.permissions import TeamRequest
from dashboard.kit.responses import render_page

FIELD = "file"
REJECTIONS_SHOWN = 200

# Imports an open file with this name, counts its rows in the report, and returns more for the page to show.
type ImportFile = Callable[[BinaryIO, str, ImportReport], dict[str, Any]]


def render_import(
    request: TeamRequest,
    template: str,
    context: Mapping[str, Any],
    form_type: type[forms.Form],
    import_file: ImportFile,
) -> HttpResponse:
    """Show the form or, after a POST and its redirect, the report of the import."""
    # The session keeps the report until the page that the POST redirects to has shown it.
    if request.method == "GET":
        report = request.session.pop(request.path, None)
        return render_page(request, template, {**context, "form": form_type(), "report": report})
    form = form_type(request.POST, request.FILES)
    # The server reads only the beginning of so large a body, and Django drops the file that is cut off.
    if int(request.headers.get("Content-Length") or 0) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
        messages = form.fields[FIELD].error_messages
        messages["required"] = messages["too_large"]
    report = _import(form, import_file) if form.is_valid() else None
    if report is None:
        return render_page(request, template, {**context, "form": form}, status=422)
    request.session[request.path] = report
    return redirect(request.path)


def _import(form: forms.Form, import_file: ImportFile) -> dict[str, Any] | None:
    """Import the form's file, decompressed if needed, and return the parts of the report that the page shows.

    If the file is unusable, the form gets an error, and nothing is returned.
    """
    report, given = ImportReport(), form.cleaned_data[FIELD]
    with NamedTemporaryFile() as file:
        for chunk in given.chunks():
            file.write(chunk)
        file.flush()
        try:
            with open_input(file.name) as stream:
                more = import_file(stream, given.name, report)
        except UnusableSource as error:
            form.add_error(FIELD, str(error).replace(file.name, "The file"))
            return None
    counted = report.to_json()
    rejected = counted["rejected"][:REJECTIONS_SHOWN]
    return {**counted, "rejected": rejected, "rejected_count": report.rejected_count, **more}
