"""Tasks of coding agents, read-only, the limits of a team's retries, and its standing documents."""

from django.contrib import admin
from django.forms import ModelForm
from django.http import HttpRequest

from contextopt.admin.base import RulesAdmin, ViewOnlyAdmin, actor, display
from contextopt.models import Attempt, Blob, ReceiverFile, RetrySettings, StandingDocument, Task

ATTEMPT_TEXTS = ("diagnosis", "plan", "error", "retry_context")


@admin.register(Task)
class TaskAdmin(ViewOnlyAdmin):
    list_display = ("id", "shown_description", "state", "repository", "team", "created_at", "expires_at")
    list_filter = ("state", "team")
    list_select_related = ("team",)
    search_fields = ("=external_id", "=repository")
    search_help_text = "An external ID or a repository."
    ordering = ("-id",)

    @display(description="Description")
    def shown_description(self, task: Task) -> str:
        return str(task)


@admin.register(Attempt)
class AttemptAdmin(ViewOnlyAdmin):
    list_display = (
        "task_id", "number", "receiver", "root_cause", "action", "state", "full_tokens", "delta_tokens",
        "saved", "created_at",
    )  # fmt: skip
    list_display_links = ("task_id", "number")
    list_filter = ("action", "state")
    search_fields = ("=task__id", "=root_cause")
    search_help_text = "The number of a task, or a root cause."
    ordering = ("-id",)
    list_defer = ATTEMPT_TEXTS
    readonly_fields = ("saved",)

    @display(description="Tokens saved")
    def saved(self, attempt: Attempt) -> str:
        return "–" if attempt.saved_tokens is None else f"{attempt.saved_tokens:+,}"


@admin.register(Blob)
class BlobAdmin(ViewOnlyAdmin):
    """The contents are never shown: they are the agents' files."""

    list_display = ("sha256", "team", "size", "used_at")
    list_filter = ("team",)
    list_select_related = ("team",)
    search_fields = ("=sha256",)
    fields = ("sha256", "team", "size", "used_at")
    ordering = ("-id",)
    always_defer = ("content",)


@admin.register(ReceiverFile)
class ReceiverFileAdmin(ViewOnlyAdmin):
    list_display = ("task_id", "receiver", "path", "blob_id", "is_partial")
    list_display_links = ("path",)
    search_fields = ("=task__id", "=path")
    fields = ("task", "receiver", "path", "shown_blob", "is_partial")
    readonly_fields = ("shown_blob",)
    ordering = ("-id",)

    @display(description="Content")
    def shown_blob(self, file: ReceiverFile) -> str:
        if file.blob_id is None:
            return "never sent whole"
        blob = Blob.objects.only("sha256", "size").get(pk=file.blob_id)
        return f"{blob.sha256}, {blob.size:,} bytes"


@admin.register(RetrySettings)
class RetrySettingsAdmin(RulesAdmin):
    """A team's own limits. Deleting them restores the defaults."""

    list_display = ("team", "error_tokens", "diff_lines", "diff_characters", "updated_by", "updated_at")
    list_select_related = ("team",)
    autocomplete_fields = ("team",)
    ordering = ("team",)


@admin.register(StandingDocument)
class StandingDocumentAdmin(RulesAdmin):
    """Documents that every step of a repository's tasks is sent. They can be added, edited and deleted."""

    list_display = ("title", "repository", "team", "created_by", "updated_at")
    list_filter = ("team",)
    list_select_related = ("team",)
    search_fields = ("title", "=repository")
    autocomplete_fields = ("team",)
    ordering = ("repository", "id")

    def save_model(
        self, request: HttpRequest, obj: StandingDocument, form: "ModelForm[StandingDocument]", change: bool
    ) -> None:
        if not change:
            obj.created_by = actor(request)
        super().save_model(request, obj, form, change)
