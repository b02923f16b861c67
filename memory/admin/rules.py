"""A team's rules: half-lives, hints and ratings. Each row belongs to one team."""

from django.contrib import admin

from contextopt.admin.base import RulesAdmin
from memory.models import HalfLife, MemoryPolicy


@admin.register(HalfLife)
class HalfLifeAdmin(RulesAdmin):
    list_display = ("memory_type", "days", "team")
    list_filter = ("team",)
    list_select_related = ("team",)
    autocomplete_fields = ("team",)
    ordering = ("team", "memory_type")


@admin.register(MemoryPolicy)
class MemoryPolicyAdmin(RulesAdmin):
    list_display = ("team", "hints_across_repositories", "rating_weight", "retire_below", "retire_after")
    list_select_related = ("team",)
    autocomplete_fields = ("team",)
    ordering = ("team",)
