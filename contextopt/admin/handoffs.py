"""Findings and hand-offs, read-only, and the sizes that a team may set."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from contextopt.admin.base import RulesAdmin, ViewOnlyAdmin, display
from contextopt.agents.handoffs.compression import default_budgets
from contextopt.inputs import read_digits
from contextopt.models import Finding, HandoffPhase, HandoffSettings, PhaseCompression

COMPRESSION_TEXTS = ("extract", "written", "discarded", "warnings", "settings")


@admin.register(Finding)
class FindingAdmin(ViewOnlyAdmin):
    list_display = (
        "task_id", "key", "phase", "category", "confidence", "decision", "tokens", "created_by", "created_at",
    )  # fmt: skip
    list_display_links = ("task_id", "key")
    list_filter = ("phase", "decision")
    search_fields = ("=task__id", "=category")
    search_help_text = "The number of a task, or a category."
    ordering = ("-id",)
    list_defer = ("content",)


@admin.register(PhaseCompression)
class PhaseCompressionAdmin(ViewOnlyAdmin):
    list_display = (
        "task_id", "phase", "version", "findings_count", "tokens_before", "extract_tokens", "critical_tokens",
        "saved", "brief_state", "is_forced", "created_at",
    )  # fmt: skip
    list_display_links = ("task_id", "phase")
    list_filter = ("phase", "brief_state", "is_forced")
    search_fields = ("=task__id",)
    search_help_text = "The number of a task."
    ordering = ("-id",)
    list_defer = COMPRESSION_TEXTS
    list_select_related = ("assembly",)
    readonly_fields = ("saved",)

    @display(description="Tokens saved")
    def saved(self, compression: PhaseCompression) -> str:
        return "–" if compression.saved_tokens is None else f"{compression.saved_tokens:+,}"


@admin.register(HandoffSettings)
class HandoffSettingsAdmin(RulesAdmin):
    """A team's own sizes for one phase. Deleting them restores the defaults."""

    list_display = (
        "team", "phase", "bundle_tokens", "findings_tokens", "brief_tokens", "critical_tokens",
        "max_critical", "updated_by", "updated_at",
    )  # fmt: skip
    list_display_links = ("team", "phase")
    list_filter = ("phase", "team")
    list_select_related = ("team",)
    autocomplete_fields = ("team",)
    ordering = ("-id",)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Start with the defaults of the phase given in the URL, or of the first phase."""
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        name = initial.get("phase", "")
        if read_digits(str(initial.get("team", ""))) is None:
            initial.pop("team", None)
        phase = HandoffPhase(name) if name in HandoffPhase.values else HandoffPhase.ANALYSIS
        return {**default_budgets(phase).to_json(), **initial, "phase": phase.value}
