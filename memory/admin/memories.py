"""Memories and strategies, read-only here; the product's own functions change them."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm

from contextopt.admin.base import PurgeForm, ViewOnlyAdmin, action, actor, display
from contextopt.errors import Conflict
from contextopt.models import Completion
from memory.memories.memories import delete_memory, restore_memory
from memory.memories.purge import purge_memory
from memory.models import Memory, MemoryEmbedding, StrategyUse, TrustChange
from memory.strategies.strategies import reinstate_strategy, retire_strategy


@admin.register(Memory)
class MemoryAdmin(ViewOnlyAdmin):
    list_display = (
        "id", "shown_content", "memory_type", "trust_level", "trust", "repository", "team", "retired_at",
        "deleted_at", "purged_at", "created_at",
    )  # fmt: skip
    list_display_links = ("id", "shown_content")
    list_filter = ("memory_type", "trust_level", "team")
    list_select_related = ("team",)
    search_fields = ("=repository", "=category")
    search_help_text = "A repository or category."
    exclude = ("search_vector",)
    ordering = ("-id",)
    actions = ("retire", "reinstate", "delete", "restore")
    actions_detail = ("purge",)

    @display(description="Content")
    def shown_content(self, memory: Memory) -> str:
        return str(memory)

    @action(description="Retire")
    def retire(self, request: HttpRequest, rows: QuerySet[Memory]) -> None:
        for memory in rows:
            retire_strategy(memory=memory, reason="retired in the admin", actor=actor(request))

    @action(description="Reinstate")
    def reinstate(self, request: HttpRequest, rows: QuerySet[Memory]) -> None:
        for memory in rows:
            try:
                reinstate_strategy(memory=memory, actor=actor(request))
            except Conflict as error:
                self.message_user(request, str(error), "warning")

    @action(description="Delete")
    def delete(self, request: HttpRequest, rows: QuerySet[Memory]) -> None:
        for memory in rows:
            delete_memory(memory=memory, actor=actor(request))

    @action(description="Restore")
    def restore(self, request: HttpRequest, rows: QuerySet[Memory]) -> None:
        for memory in rows:
            try:
                restore_memory(memory=memory, actor=actor(request))
            except Conflict as error:
                self.message_user(request, str(error), "warning")

    @action(
        description="Purge",
        permissions=["purge"],
        variant=ActionVariant.DANGER,
        dialog={
            "title": "Purge this memory?",
            "description": "Erases its text from the memory and all stored contexts. No undo.",
            "form_class": PurgeForm,
            "form_submit_text": "Purge",
        },
    )
    def purge(self, request: HttpRequest, form: BaseDialogForm, object_id: str) -> HttpResponse:  # noqa: ARG002
        memory = purge_memory(memory=get_object_or_404(Memory, pk=object_id), actor=actor(request))
        self.log_change(request, memory, "Purged.")
        self.message_user(request, "The memory's text has been erased.")
        # htmx sends the dialog and follows this header.
        address = reverse(f"{self.admin_site.name}:memory_memory_change", args=[memory.pk])
        return HttpResponse(headers={"HX-Redirect": address})

    def has_purge_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:  # noqa: ARG002
        """Rows cannot be deleted here, but whoever may delete memories may purge them."""
        return bool(request.user.has_perm("memory.delete_memory"))


@admin.register(MemoryEmbedding)
class MemoryEmbeddingAdmin(ViewOnlyAdmin):
    list_display = ("memory_id", "model", "corpus_id", "created_at")
    list_select_related = ("model",)
    fields = ("memory_id", "model", "corpus_id", "created_at")
    search_fields = ("=memory__id",)
    ordering = ("-id",)
    always_defer = ("embedding",)


@admin.register(StrategyUse)
class StrategyUseAdmin(ViewOnlyAdmin):
    list_display = (
        "id",
        "memory_id",
        "asked",
        "similarity",
        "succeeded",
        "rating",
        "tokens_saved",
        "created_at",
    )
    search_fields = ("=memory__id", "=task__id")
    ordering = ("-id",)


@admin.register(TrustChange)
class TrustChangeAdmin(ViewOnlyAdmin):
    list_display = ("id", "memory_id", "trust", "rating", "weight", "reason", "changed_by", "changed_at")
    search_fields = ("=memory__id",)
    ordering = ("-id",)


@admin.register(Completion)
class CompletionAdmin(ViewOnlyAdmin):
    """A completion whose lessons could not be stored yet shows the error here. It is tried again."""

    list_display = ("id", "task_id", "team", "learned_at", "tries", "error", "created_by", "created_at")
    list_filter = ("team",)
    list_select_related = ("team",)
    search_fields = ("=task__id",)
    ordering = ("-id",)
    list_defer = ("report", "learned")
