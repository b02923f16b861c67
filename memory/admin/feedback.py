"""Votes, read-only, since people change their own."""

from django.contrib import admin

from contextopt.admin.base import ViewOnlyAdmin
from memory.models import ExternalMessage, Vote


@admin.register(Vote)
class VoteAdmin(ViewOnlyAdmin):
    list_display = ("id", "rating", "rater", "assembly_id", "stage", "config_version", "reason", "created_at")
    list_filter = ("rating", "stage", "team")
    search_fields = ("=rater", "=assembly__id")
    search_help_text = "A rater, such as user:ann, or the number of an assembly."
    ordering = ("-id",)


@admin.register(ExternalMessage)
class ExternalMessageAdmin(ViewOnlyAdmin):
    list_display = ("external_id", "assembly_id", "team", "created_at")
    list_filter = ("team",)
    list_select_related = ("team",)
    search_fields = ("=external_id", "=assembly__id")
    ordering = ("-id",)
