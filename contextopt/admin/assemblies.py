"""The log of assemblies, read-only because its rows never change."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from contextopt.admin.base import ViewOnlyAdmin, display, percent
from contextopt.assemblies.corrections import Correction
from contextopt.assemblies.figures import FIGURES, Figure, Format
from contextopt.assemblies.models import Assembly, AssemblyPayload

PAYLOAD_TEXTS = ("text", "baseline_text", "ledger", "config", "request", "record_ids")


FORMATS: dict[Format, Callable[[Any], str]] = {
    Format.WHOLE: "{:,}".format,
    Format.SIGNED: "{:+,}".format,
    Format.RATIO: percent,
    Format.PERCENT: percent,
    Format.MILLISECONDS: "{:.1f}".format,
}


def column_of(figure: Figure) -> str | Callable[[Assembly], str]:
    """Return the column of a figure. The field of a flag shows an icon."""
    if figure.format is Format.YES_NO:
        return figure.name

    @display(description=figure.label, ordering=figure.name if figure.is_stored else None)
    def show(assembly: Assembly) -> str:
        value = getattr(assembly, figure.name)
        return "–" if value is None else FORMATS[figure.format](value)

    return show


COLUMNS = {figure: column_of(figure) for figure in FIGURES if figure.in_admin}


@admin.register(Assembly)
class AssemblyAdmin(ViewOnlyAdmin):
    list_display = ("id", "space", "kind", "stage", *COLUMNS.values(), "created_at")
    list_filter = ("kind", "stage", "truncated", "is_demo", "team", "space")
    list_select_related = ("space", "team", "config")
    search_fields = ("=sha256",)
    search_help_text = "The SHA-256 of a text."
    ordering = ("-id",)
    readonly_fields = tuple(column for figure, column in COLUMNS.items() if not figure.is_stored)


@admin.register(AssemblyPayload)
class AssemblyPayloadAdmin(ViewOnlyAdmin):
    list_display = ("assembly", "purged_at")
    list_filter = (("purged_at", admin.EmptyFieldListFilter),)
    search_fields = ("=assembly__id", "=assembly__sha256")
    ordering = ("-assembly_id",)
    list_defer = PAYLOAD_TEXTS

    def get_queryset(self, request: HttpRequest) -> QuerySet[AssemblyPayload]:
        payloads: QuerySet[AssemblyPayload] = super().get_queryset(request)
        return payloads.select_related("assembly")


@admin.register(Correction)
class CorrectionAdmin(ViewOnlyAdmin):
    list_display = ("assembly", "reason", "tokens_before", "corrected_at")
    list_filter = ("reason", "assembly__team")
    list_select_related = ("assembly",)
    search_fields = ("=assembly__id",)
    search_help_text = "The number of an assembly."
    ordering = ("-assembly_id",)
