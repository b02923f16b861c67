"""The log of changes, and invitations, both read-only."""

from django.contrib import admin

from contextopt.admin.base import ViewOnlyAdmin
from contextopt.models import AuditEvent, Invitation


@admin.register(AuditEvent)
class AuditEventAdmin(ViewOnlyAdmin):
    list_display = ("at", "actor", "action", "subject", "team")
    list_filter = ("team", "action")
    list_select_related = ("team",)
    search_fields = ("=actor", "=action")
    ordering = ("-id",)


@admin.register(Invitation)
class InvitationAdmin(ViewOnlyAdmin):
    list_display = ("name", "team", "role", "created_by", "expires_at", "accepted_at", "revoked_at")
    list_filter = ("team", "role")
    list_select_related = ("team",)
    search_fields = ("name",)
    fields = ("name", "team", "role", "created_by", "created_at", "expires_at", "accepted_at", "revoked_at")
    ordering = ("-id",)
