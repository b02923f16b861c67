"""Memories that the team and its agents keep."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from contextopt.people.models import Role
from dashboard.kit.permissions import TeamRequest, as_message, get_memory, page_for
from dashboard.kit.responses import Page, newest_page, render_page
from dashboard.pages.memories.forms import MemoriesForm, MemoryEditForm, MemoryForm
from memory.memories.memories import (
    access_memories,
    create_memory,
    delete_memory,
    restore_memory,
    update_memory,
)
from memory.memories.models import MEMORY_TYPES, Memory
from memory.memories.purge import purge_memory

# Added to the URL after a save: viewing one's own edit does not count as an access.
AFTER_SAVE = "?from=edit"
OVERTAKEN = "The memory was changed in the meantime. Save again to replace those changes."


@page_for(Role.VIEWER, "GET")
def memories(request: TeamRequest) -> HttpResponse:
    form = MemoriesForm(request.GET, team=request.team)
    page: Page[Memory] = (
        Page(form.found(), "", is_first=True)
        if form.searched
        else newest_page(form.select(), "created_at", request.GET.get("before", ""))
    )
    context = {"form": form, "query": form.query(), "page": page, "types": MEMORY_TYPES}
    return render_page(request, "dashboard/memories.html", context, partials=("memories",))


@page_for(Role.EDITOR, "GET POST")
def memory_new(request: TeamRequest) -> HttpResponse:
    form = MemoryForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        memory = create_memory(team=request.team, data=form.value, actor=request.actor)
        messages.success(request, "Memory saved.")
        return _to_memory(memory)
    status = 422 if form.is_bound else 200
    context = {"form": form, "types": MEMORY_TYPES}
    return render_page(request, "dashboard/memory_new.html", context, status=status)


@page_for(Role.VIEWER, "GET", get_memory)
def memory(request: TeamRequest, found: Memory) -> HttpResponse:
    if not request.htmx and request.GET.get("from") != "edit" and found.deleted_at is None:
        access_memories(memory_ids=[found.pk])
        found.refresh_from_db(fields=["access_count", "last_accessed_at"])
    return _render(request, found, MemoryEditForm(initial=MemoryEditForm.initial_of(found)))


@page_for(Role.EDITOR, "POST", get_memory)
def memory_edit(request: TeamRequest, found: Memory) -> HttpResponse:
    form = MemoryEditForm(request.POST, initial=MemoryEditForm.initial_of(found))
    if form.is_overtaken:
        form.add_error(None, OVERTAKEN)
        return _render(request, found, form, status=409)
    if not form.is_valid():
        return _render(request, found, form, status=422)
    with form.refusals():
        update_memory(memory=found, changes=form.value)
        messages.success(request, "Saved." if form.changed_data else "Nothing was changed.")
        return _to_memory(found)
    return _render(request, found, form, status=409)


@page_for(Role.EDITOR, "POST", get_memory)
def memory_delete(request: TeamRequest, found: Memory) -> HttpResponse:
    delete_memory(memory=found, actor=request.actor)
    undo = reverse("dashboard:memory_restore", args=[found.pk])
    messages.success(request, f"“{str(found)[:60]}” deleted.", extra_tags=undo)
    return redirect("dashboard:memories")


@page_for(Role.EDITOR, "POST", get_memory)
def memory_restore(request: TeamRequest, found: Memory) -> HttpResponse:
    with as_message(request, "Not restored."):
        restore_memory(memory=found, actor=request.actor)
        messages.success(request, "Memory restored.")
    return _to_memory(found)


@page_for(Role.ADMIN, "POST", get_memory)
def memory_purge(request: TeamRequest, found: Memory) -> HttpResponse:
    if request.POST.get("confirm", "").strip().lower() != "purge":
        messages.error(request, "Not purged. Type the word purge to confirm.")
        return _to_memory(found)
    purge_memory(memory=found, actor=request.actor)
    messages.success(request, "The memory's text has been erased everywhere.")
    return _to_memory(found)


def _to_memory(found: Memory) -> HttpResponse:
    return redirect(reverse("dashboard:memory", args=[found.pk]) + AFTER_SAVE)


def _render(request: TeamRequest, found: Memory, form: MemoryEditForm, status: int = 200) -> HttpResponse:
    context = {"memory": found, "form": form, "types": MEMORY_TYPES}
    return render_page(request, "dashboard/memory.html", context, status=status)
