"""Backtests, read-only: the pages and the API start them."""

from django.contrib import admin

from contextopt.admin.base import ViewOnlyAdmin
from memory.models import Backtest


@admin.register(Backtest)
class BacktestAdmin(ViewOnlyAdmin):
    list_display = ("id", "space", "config", "last", "state", "created_by", "created_at", "finished_at")
    list_filter = ("state", "space")
    list_select_related = ("space", "config__space")
    ordering = ("-id",)
