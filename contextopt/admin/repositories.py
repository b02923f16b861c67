"""Repositories, read-only: their files are read from checkouts, never typed in."""

from django.contrib import admin

from contextopt.admin.base import ViewOnlyAdmin
from contextopt.models import CodeBlob, Repository, RepositoryFile, RepositoryHistory

BLOB_FIELDS = ("team", "kind", "oid", "symbols", "parser")


@admin.register(Repository)
class RepositoryAdmin(ViewOnlyAdmin):
    list_display = (
        "name", "team", "files", "symbols", "imports", "unresolved", "skipped", "seconds", "indexed_at",
    )  # fmt: skip
    list_filter = ("team",)
    list_select_related = ("team",)
    search_fields = ("name", "folder")


@admin.register(RepositoryFile)
class RepositoryFileAdmin(ViewOnlyAdmin):
    list_display = ("path", "repository", "size", "skipped")
    list_filter = ("repository", ("skipped", admin.EmptyFieldListFilter))
    list_select_related = ("repository",)
    search_fields = ("path",)
    ordering = ("-id",)


@admin.register(CodeBlob)
class CodeBlobAdmin(ViewOnlyAdmin):
    list_display = BLOB_FIELDS
    list_filter = ("kind", "team")
    list_select_related = ("team",)
    search_fields = ("=oid",)
    ordering = ("-id",)
    fields = BLOB_FIELDS
    always_defer = ("content", "parsed", "definitions", "terms")


@admin.register(RepositoryHistory)
class RepositoryHistoryAdmin(ViewOnlyAdmin):
    list_display = ("repository", "revision", "commits")
    list_select_related = ("repository",)
    search_fields = ("repository__name", "=revision")
    ordering = ("-repository_id",)
    fields = ("repository", "revision", "commits")
    always_defer = ("changes",)
