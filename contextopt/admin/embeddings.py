"""Embedding models: to look at, since the settings choose them and a job fills them."""

from django.contrib import admin

from contextopt.admin.base import ViewOnlyAdmin
from contextopt.models import EmbeddingModel


@admin.register(EmbeddingModel)
class EmbeddingModelAdmin(ViewOnlyAdmin):
    list_display = ("name", "dimensions", "state", "created_at", "activated_at", "retired_at")
    list_filter = ("state",)
    search_fields = ("name",)
