"""The dashboard's own tables in the admin: prices are edited here; owners manage their saved views."""

from importlib.metadata import version

from django.contrib import admin
from django.forms import ModelForm
from django.http import HttpRequest

from contextopt.admin.base import LoggedAdmin
from contextopt.assemblies.placement.modelcatalog import list_price
from dashboard.kit.filters import SavedView
from dashboard.rollups.models import ModelPrice


@admin.register(ModelPrice)
class ModelPriceAdmin(LoggedAdmin):
    logged_as = "prices.changed"
    list_display = (
        "__str__", "effective_from", "dollars_per_million", "cached_read_dollars", "cache_write_dollars",
        "source", "changed_at",
    )  # fmt: skip
    search_fields = ("model",)

    def save_model(
        self, request: HttpRequest, obj: ModelPrice, form: "ModelForm[ModelPrice]", change: bool
    ) -> None:
        """Fill in the prices of the cache from the package, if they are left blank and it knows them."""
        listed = list_price(obj.model) if obj.model and obj.cached_read_dollars is None else None
        if listed is not None and listed.cached_read is not None:
            obj.cached_read_dollars = listed.cached_read
            if obj.cache_write_dollars is None:
                obj.cache_write_dollars = listed.cache_write
            obj.source = obj.source or f"cache: genai-prices {version('genai-prices')}"
        super().save_model(request, obj, form, change)


@admin.register(SavedView)
class SavedViewAdmin(LoggedAdmin):
    logged_as = "view.changed"
    list_display = ("name", "page", "team", "owner", "created_by", "created_at")
    list_filter = ("page", "team")
    search_fields = ("name",)
    readonly_fields = ("team", "owner", "page", "created_by", "created_at")

    def has_add_permission(self, request: object) -> bool:  # noqa: ARG002 Django's signature
        return False
