"""One record: reading, editing, history, deletion."""

from itertools import pairwise
from typing import Any

from django.contrib import messages
from django.db.models import Value
from django.db.models.functions import Left
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from contextopt.assemblies.purge import purge_record
from contextopt.errors import Conflict, NotFound
from contextopt.models import Record, RecordRevision, Role
from contextopt.spaces.inputs import RecordPatch
from contextopt.spaces.records import (
    create_record,
    delete_record,
    restore_record,
    restore_revision,
    update_record,
)
from contextopt.spaces.recordviews import view_record
from dashboard.kit.access import TeamRequest, as_message, get_record, get_space, require_role, team_page
from dashboard.kit.pages import render_page
from dashboard.pages.spaces.decisions import ASSEMBLIES_SEARCHED, read_decisions
from dashboard.pages.spaces.forms import RecordEditForm, RecordForm
from dashboard.pages.spaces.revisions import NOTES_COMPARED, Comparison, compare

REVISIONS_SHOWN = 25
# Opening a record from these places, named in the URL, does not count as a view: an edit is not a reading,
# and judging a context must not change the next one.
LOOKED_AT_FROM = ("edit", "inspector", "review")
AFTER_SAVE = "?from=edit"
OVERTAKEN = "The record was changed in the meantime; see its history. Save again to replace those changes."


@require_http_methods(["GET", "POST"])
@team_page
def record_new(request: TeamRequest, slug: str) -> HttpResponse:
    space = get_space(request, slug)
    require_role(request, Role.EDITOR)
    form = RecordForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with form.refusals("external_id"):
            record = create_record(space=space, data=form.value, actor=request.actor)
            messages.success(request, "Record saved.")
            return _to_record(record)
    status = 422 if form.is_bound else 200
    return render_page(request, "dashboard/record_new.html", {"space": space, "form": form}, status=status)


@require_GET
@team_page
def record(request: TeamRequest, slug: str, record_id: int) -> HttpResponse:
    found = get_record(request, slug, record_id)
    # HEAD arrives as GET, but does not count as a view.
    is_get = request.META["REQUEST_METHOD"] == "GET"
    if is_get and not request.htmx and request.GET.get("from") not in LOOKED_AT_FROM:
        view_record(record=found, viewer=f"user:{request.user.pk}")
    return _render(request, found, RecordEditForm(initial=RecordEditForm.initial_of(found)))


@require_POST
@team_page
def record_edit(request: TeamRequest, slug: str, record_id: int) -> HttpResponse:
    found = get_record(request, slug, record_id)
    require_role(request, Role.EDITOR)
    form = RecordEditForm(request.POST, initial=RecordEditForm.initial_of(found))
    if form.is_overtaken:
        form.add_error(None, OVERTAKEN)
        return _render(request, found, form, status=409)
    if not form.is_valid():
        return _render(request, found, form, status=422)
    with form.refusals():
        update_record(record=found, changes=form.value, actor=request.actor)
        messages.success(request, "Saved." if form.changed_data else "Nothing was changed.")
        return _to_record(found)
    return _render(request, found, form, status=409)


@require_POST
@team_page
def record_delete(request: TeamRequest, slug: str, record_id: int) -> HttpResponse:
    found = get_record(request, slug, record_id)
    require_role(request, Role.EDITOR)
    delete_record(record=found, actor=request.actor)
    undo = reverse("dashboard:record_restore", args=[slug, record_id])
    messages.success(request, f"“{found.title[:60]}” deleted.", extra_tags=undo)
    return redirect("dashboard:space", slug)


@require_POST
@team_page
def record_restore(request: TeamRequest, slug: str, record_id: int) -> HttpResponse:
    found = get_record(request, slug, record_id)
    require_role(request, Role.EDITOR)
    with as_message(request, "Not restored."):
        restore_record(record=found, actor=request.actor)
        messages.success(request, "Record restored.")
    return _to_record(found)


@require_POST
@team_page
def record_pin(request: TeamRequest, slug: str, record_id: int) -> HttpResponse:
    found = get_record(request, slug, record_id)
    require_role(request, Role.EDITOR)
    changes = RecordPatch(pinned=not found.pinned)
    with as_message(request, "Not changed."):
        update_record(record=found, changes=changes, actor=request.actor)
        messages.success(request, "Pinned." if changes.pinned else "Unpinned.")
    return _to_record(found)


@require_POST
@team_page
def record_undo(request: TeamRequest, slug: str, record_id: int, number: int) -> HttpResponse:
    """Restore the record to its state before a change."""
    found = get_record(request, slug, record_id)
    require_role(request, Role.EDITOR)
    try:
        restore_revision(record=found, number=number, actor=request.actor)
    except (Conflict, NotFound) as error:
        messages.error(request, f"Not changed. {error}")
    else:
        messages.success(request, "Change undone.")
    return _to_record(found)


@require_POST
@team_page
def record_purge(request: TeamRequest, slug: str, record_id: int) -> HttpResponse:
    found = get_record(request, slug, record_id)
    require_role(request, Role.ADMIN)
    if request.POST.get("confirm", "").strip().lower() != "purge":
        messages.error(request, "Not purged. Type the word purge to confirm.")
        return _to_record(found)
    purge_record(record=found, actor=request.actor)
    messages.success(request, "The record's text has been erased everywhere.")
    return _to_record(found)


def _to_record(found: Record) -> HttpResponse:
    return redirect(reverse("dashboard:record", args=[found.space.slug, found.pk]) + AFTER_SAVE)


def _render(request: TeamRequest, found: Record, form: RecordEditForm, status: int = 200) -> HttpResponse:
    context = {
        "record": found,
        "space": found.space,
        "form": form,
        "revisions": _past(found),
        "decisions": read_decisions(found),
        "searched": ASSEMBLIES_SEARCHED,
    }
    return render_page(request, "dashboard/record.html", context, status=status)


def _past(found: Record) -> list[tuple[RecordRevision, Comparison]]:
    """Return the newest revisions, each with the effect of its change, in one query."""
    revisions: list[Any] = list(
        found.revisions.order_by("-number")
        .defer("notes")
        .annotate(beginning=Left("notes", Value(NOTES_COMPARED + 1)))[:REVISIONS_SHOWN]
    )
    for revision in revisions:
        revision.notes = revision.beginning
    return [(before, compare(before, after)) for after, before in pairwise([_head(found), *revisions])]


def _head(found: Record) -> Record:
    """Return the record with its notes cut like the revisions', so that they can be compared."""
    head = Record.objects.model(**{name: getattr(found, name) for name in HEAD_FIELDS})
    head.notes = found.notes[: NOTES_COMPARED + 1]
    return head


HEAD_FIELDS = (
    "title", "type", "date", "tags", "pinned", "thread", "position", "metadata", "deleted_at", "view_count",
)  # fmt: skip
