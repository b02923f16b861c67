"""The dashboard's own tables in the admin: prices are edited here; owners manage their saved views."""

from django.contrib import admin

from contextopt.admin.base import BaseAdmin
from dashboard.models import ModelPrice, SavedView


@admin.register(ModelPrice)
class ModelPriceAdmin(BaseAdmin):
    list_display = ("__str__", "dollars_per_million", "changed_at")
    search_fields = ("model",)


@admin.register(SavedView)
class SavedViewAdmin(BaseAdmin):
    list_display = ("name", "page", "team", "owner", "created_by", "created_at")
    list_filter = ("page", "team")
    search_fields = ("name",)
    readonly_fields = ("team", "owner", "page", "created_by", "created_at")

    def has_add_permission(self, request: object) -> bool:  # noqa: ARG002 Django's signature
        return False
