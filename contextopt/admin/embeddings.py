"""Vectors, read-only: the settings choose their model and a job makes them."""

from django.contrib import admin

from contextopt.admin.base import ViewOnlyAdmin
from contextopt.models import EmbeddingFill, EmbeddingModel, EmbeddingTodo, RecordEmbedding

EMBEDDING_FIELDS = ("record", "model", "corpus_id", "created_at")


@admin.register(EmbeddingModel)
class EmbeddingModelAdmin(ViewOnlyAdmin):
    list_display = ("name", "dimensions", "state", "created_at", "activated_at", "retired_at")
    list_filter = ("state",)
    search_fields = ("name",)


@admin.register(EmbeddingFill)
class EmbeddingFillAdmin(ViewOnlyAdmin):
    list_display = ("model", "searchable", "total", "walked", "is_filled", "is_indexed")
    list_filter = ("model",)
    list_select_related = ("model",)


@admin.register(EmbeddingTodo)
class EmbeddingTodoAdmin(ViewOnlyAdmin):
    list_display = ("id", "searchable", "corpus_id", "row_id", "model")
    list_select_related = ("model",)
    ordering = ("-id",)


@admin.register(RecordEmbedding)
class RecordEmbeddingAdmin(ViewOnlyAdmin):
    list_display = EMBEDDING_FIELDS
    list_filter = ("model",)
    list_select_related = ("record", "model")
    ordering = ("-id",)
    fields = EMBEDDING_FIELDS
    always_defer = ("embedding",)
