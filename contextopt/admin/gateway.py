"""The gateway's tables, read-only. Policies are changed where the change is logged."""

from django.contrib import admin

from contextopt.admin.base import ViewOnlyAdmin
from contextopt.models import GatewayGap, GatewayPolicy, GatewayRequest


@admin.register(GatewayPolicy)
class GatewayPolicyAdmin(ViewOnlyAdmin):
    list_display = ("space", "mode", "insert_percent", "placement", "keep", "history_tokens", "updated_at")
    list_filter = ("mode", "keep")
    list_select_related = ("space",)
    ordering = ("-updated_at",)


@admin.register(GatewayRequest)
class GatewayRequestAdmin(ViewOnlyAdmin):
    list_display = (
        "id", "protocol", "model", "space_id", "mode", "is_inserted", "reason", "outcome", "status_code",
        "input_tokens", "cached_tokens", "added_ms", "created_at",
    )  # fmt: skip
    list_filter = ("protocol", "mode", "outcome", "reason")
    search_fields = ("=id", "=conversation")
    search_help_text = "The number of a request, or a conversation's hash."
    ordering = ("-id",)
    list_defer = ("question", "answer")


@admin.register(GatewayGap)
class GatewayGapAdmin(ViewOnlyAdmin):
    list_display = ("id", "team", "requests", "created_at")
    list_select_related = ("team",)
    ordering = ("-id",)
