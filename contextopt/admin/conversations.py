"""Conversations, read-only. The texts of messages are shown one at a time."""

from django.contrib import admin

from contextopt.admin.base import ViewOnlyAdmin
from contextopt.models import Conversation, Message


@admin.register(Conversation)
class ConversationAdmin(ViewOnlyAdmin):
    list_display = ("id", "title", "space", "team", "stage", "created_by", "active_at")
    list_filter = ("stage", "team")
    list_select_related = ("space", "team")
    ordering = ("-id",)


@admin.register(Message)
class MessageAdmin(ViewOnlyAdmin):
    list_display = (
        "id", "conversation_id", "author", "state", "tries", "next_try_at", "error", "model", "created_at"
    )  # fmt: skip
    list_filter = ("state", "author")
    search_fields = ("=id", "=conversation__id", "=idempotency_key")
    search_help_text = "The number of a message or conversation, or an idempotency key."
    ordering = ("-id",)
    list_defer = ("text",)
