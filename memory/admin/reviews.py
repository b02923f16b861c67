"""Reviews, read-only, since verdicts belong to their reviewers."""

from django.contrib import admin

from contextopt.admin.base import ViewOnlyAdmin
from memory.models import ReviewItem, ReviewRules


@admin.register(ReviewItem)
class ReviewItemAdmin(ViewOnlyAdmin):
    list_display = (
        "id",
        "state",
        "origin",
        "verdicts",
        "assembly_id",
        "assigned_to",
        "created_at",
        "done_at",
    )
    list_filter = ("state", "origin", "team")
    list_select_related = ("assigned_to",)
    search_fields = ("=assembly__id",)
    ordering = ("-id",)


@admin.register(ReviewRules)
class ReviewRulesAdmin(ViewOnlyAdmin):
    list_display = ("team", "takes_disliked", "sample_share", "verdicts_wanted")
    list_select_related = ("team",)
    ordering = ("team",)
