"""The word counts that search uses, read-only: a job maintains them."""

from django.contrib import admin

from contextopt.admin.base import ViewOnlyAdmin
from contextopt.models import DocumentFrequency, SearchCorpus


@admin.register(SearchCorpus)
class SearchCorpusAdmin(ViewOnlyAdmin):
    list_display = ("searchable", "corpus_id", "documents", "mean_length", "counted_at")
    list_filter = ("searchable",)
    search_fields = ("corpus_id",)


@admin.register(DocumentFrequency)
class DocumentFrequencyAdmin(ViewOnlyAdmin):
    list_display = ("lexeme", "documents", "corpus")
    list_select_related = ("corpus",)
    search_fields = ("lexeme",)
    ordering = ("-id",)
