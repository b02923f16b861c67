"""One record: reading, editing, history, deletion."""

import difflib
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

from django.contrib import messages
from django.db.models import Value
from django.db.models.functions import Left
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.purge import purge_record
from contextopt.errors import Conflict, NotFound
from contextopt.people.models import Role
from contextopt.spaces.inputs import RecordPatch
from contextopt.spaces.models import Record, RecordRevision, RecordState, Space
from contextopt.spaces.records import (
    create_record,
    delete_record,
    restore_record,
    restore_revision,
    update_record,
)
from contextopt.spaces.recordviews import view_record
from dashboard.kit.formats import reason_words
from dashboard.kit.permissions import (
    TeamRequest,
    as_message,
    get_record,
    get_space,
    page_for,
)
from dashboard.kit.responses import render_page
from dashboard.pages.spaces.forms import RecordEditForm, RecordForm

ASSEMBLIES_SEARCHED = 200
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a record in one assembly.

    `score` is None in a stage that does not score. `reason` is empty if the record was kept, `question` if
    there was none.
    """

    assembly_id: int
    created_at: datetime
    question: str
    score: float | None
    is_kept: bool
    reason: str


def read_decisions(record: Record) -> list[Decision]:
    """Return the newest decisions on a record among the space's newest assemblies.

    A dropped record is found only if it was among the best hundred dropped ones, which the ledger names.
    """
    newest = Assembly.objects.filter(space=record.space_id).newest_first()
    payloads = (
        AssemblyPayload.objects.filter(
            pk__in=newest.values("pk")[:ASSEMBLIES_SEARCHED], record_ids__contains=[record.pk]
        )
        .select_related("assembly")
        .only("ledger", "request", "assembly__created_at")
        .order_by("-assembly__created_at", "-pk")[:SHOWN]
    )
    return [
        Decision(
            assembly_id=payload.pk,
            created_at=payload.assembly.created_at,
            question=payload.request.get("query") or "",
            score=entry["score"] if entry["parts"] else None,
            is_kept=entry["kept"],
            reason=reason_words(entry["reason"]) if entry["reason"] else "",
        )
        for payload in payloads
        for entry in payload.entries
        if entry["id"] == record.pk
    ]


SHOWN_FIELDS = ("title", "type", "date", "tags", "pinned", "thread", "position", "metadata", "deleted_at")
# Comparing takes quadratic time, so only the beginning of longer notes is compared.
NOTES_COMPARED = 4_000
LINES_SHOWN = 60

type Mark = Literal["same", "added", "removed"]


@dataclass(frozen=True, slots=True)
class FieldChange:
    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class DiffLine:
    mark: Mark
    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The fields that differ, and the notes line by line."""

    fields: tuple[FieldChange, ...]
    notes: tuple[DiffLine, ...]
    is_cut: bool = False


def compare(before: RecordState, after: RecordState) -> Comparison:
    """Compare two states by their own fields; view counts are ignored."""
    fields = tuple(
        FieldChange(name.replace("_", " "), getattr(before, name), getattr(after, name))
        for name in SHOWN_FIELDS
        if getattr(before, name) != getattr(after, name)
    )
    if before.notes == after.notes:
        return Comparison(fields, ())
    was, now = (state.notes[:NOTES_COMPARED].split("\n") for state in (before, after))
    changed = list(difflib.unified_diff(was, now, n=1, lineterm=""))[2:]
    lines = [DiffLine(_MARKS[line[0]], line[1:]) for line in changed if line[0] in _MARKS]
    is_cut = len(lines) > LINES_SHOWN or max(len(before.notes), len(after.notes)) > NOTES_COMPARED
    return Comparison(fields, tuple(lines[:LINES_SHOWN]), is_cut)


_MARKS: dict[str, Mark] = {" ": "same", "+": "added", "-": "removed"}


REVISIONS_SHOWN = 25
# Opening a record from these places, named in the URL, does not count as a view: an edit is not a reading,
# and judging a context must not change the next one.
LOOKED_AT_FROM = ("edit", "inspector", "review")
AFTER_SAVE = "?from=edit"
OVERTAKEN = "The record was changed in the meantime; see its history. Save again to replace those changes."


@page_for(Role.EDITOR, "GET POST", get_space)
def record_new(request: TeamRequest, space: Space) -> HttpResponse:
    form = RecordForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with form.refusals("external_id"):
            record = create_record(space=space, data=form.value, actor=request.actor)
            messages.success(request, "Record saved.")
            return _to_record(record)
    status = 422 if form.is_bound else 200
    return render_page(request, "dashboard/record_new.html", {"space": space, "form": form}, status=status)


@page_for(Role.VIEWER, "GET", get_record)
def record(request: TeamRequest, found: Record) -> HttpResponse:
    # HEAD arrives as GET, but does not count as a view.
    is_get = request.META["REQUEST_METHOD"] == "GET"
    if is_get and not request.htmx and request.GET.get("from") not in LOOKED_AT_FROM:
        view_record(record=found, viewer=f"user:{request.user.pk}")
    return _render(request, found, RecordEditForm(initial=RecordEditForm.initial_of(found)))


@page_for(Role.EDITOR, "POST", get_record)
def record_edit(request: TeamRequest, found: Record) -> HttpResponse:
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


@page_for(Role.EDITOR, "POST", get_record)
def record_delete(request: TeamRequest, found: Record) -> HttpResponse:
    delete_record(record=found, actor=request.actor)
    undo = reverse("dashboard:record_restore", args=[found.space.slug, found.pk])
    messages.success(request, f"“{found.title[:60]}” deleted.", extra_tags=undo)
    return redirect("dashboard:space", found.space.slug)


@page_for(Role.EDITOR, "POST", get_record)
def record_restore(request: TeamRequest, found: Record) -> HttpResponse:
    with as_message(request, "Not restored."):
        restore_record(record=found, actor=request.actor)
        messages.success(request, "Record restored.")
    return _to_record(found)


@page_for(Role.EDITOR, "POST", get_record)
def record_pin(request: TeamRequest, found: Record) -> HttpResponse:
    changes = RecordPatch(pinned=not found.pinned)
    with as_message(request, "Not changed."):
        update_record(record=found, changes=changes, actor=request.actor)
        messages.success(request, "Pinned." if changes.pinned else "Unpinned.")
    return _to_record(found)


@page_for(Role.EDITOR, "POST", get_record)
def record_undo(request: TeamRequest, found: Record, number: int) -> HttpResponse:
    """Restore the record to its state before a change."""
    try:
        restore_revision(record=found, number=number, actor=request.actor)
    except (Conflict, NotFound) as error:
        messages.error(request, f"Not changed. {error}")
    else:
        messages.success(request, "Change undone.")
    return _to_record(found)


@page_for(Role.ADMIN, "POST", get_record)
def record_purge(request: TeamRequest, found: Record) -> HttpResponse:
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
    # The record's notes are cut like the revisions', so that they can be compared.
    head = Record.objects.model(**{name: getattr(found, name) for name in HEAD_FIELDS})
    head.notes = found.notes[: NOTES_COMPARED + 1]
    return [(before, compare(before, after)) for after, before in pairwise([head, *revisions])]


HEAD_FIELDS = (
    "title", "type", "date", "tags", "pinned", "thread", "position", "metadata", "deleted_at", "view_count",
)  # fmt: skip
