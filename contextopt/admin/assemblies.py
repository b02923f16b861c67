"""The log of assemblies, read-only because its rows never change."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from contextopt.admin.base import ViewOnlyAdmin, display, percent
from contextopt.models import Assembly, AssemblyPayload, Correction

PAYLOAD_TEXTS = ("text", "baseline_text", "ledger", "config", "request", "record_ids")


@admin.register(Assembly)
class AssemblyAdmin(ViewOnlyAdmin):
    list_display = (
        "id", "space", "kind", "stage", "compression", "use_of_budget", "saved", "truncated", "milliseconds",
        "created_at",
    )  # fmt: skip
    list_filter = ("kind", "stage", "truncated", "is_demo", "team", "space")
    list_select_related = ("space", "team", "config")
    search_fields = ("=sha256",)
    search_help_text = "The SHA-256 of a text."
    ordering = ("-id",)
    readonly_fields = ("compression", "use_of_budget", "saved")

    @display(description="Compression ratio")
    def compression(self, assembly: Assembly) -> str:
        return percent(assembly.compression_ratio)

    @display(description="Utilisation")
    def use_of_budget(self, assembly: Assembly) -> str:
        return percent(assembly.utilisation)

    @display(description="Assembly ms", ordering="assembly_ms")
    def milliseconds(self, assembly: Assembly) -> str:
        return f"{assembly.assembly_ms:.1f}"

    @display(description="Tokens saved")
    def saved(self, assembly: Assembly) -> str:
        return "–" if assembly.tokens_saved is None else f"{assembly.tokens_saved:+,}"


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
