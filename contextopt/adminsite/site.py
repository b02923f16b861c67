"""The admin site: unfold's, with its own content security policy."""

from collections.abc import Callable
from typing import Any

from django.db.models import Model
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.csp import CSP
from django.views.decorators.csp import csp_override
from unfold.sites import UnfoldAdminSite

from contextopt.adminsite.menu import GROUPS, SHOWS_INTERNAL, shown_groups

# Unfold evaluates expressions in attributes and uses inline styles. Nothing outside the admin may.
ADMIN_POLICY: dict[str, list[str]] = {
    "default-src": [CSP.SELF],
    "script-src": [CSP.SELF, CSP.UNSAFE_EVAL, CSP.UNSAFE_INLINE],
    "style-src": [CSP.SELF, CSP.UNSAFE_INLINE],
    "img-src": [CSP.SELF, "data:"],
    "object-src": [CSP.NONE],
    "base-uri": [CSP.NONE],
    "frame-ancestors": [CSP.NONE],
    "form-action": [CSP.SELF],
}


class ContextoptAdminSite(UnfoldAdminSite):  # type: ignore[misc]
    site_header = "Contextopt"
    site_title = "Contextopt admin"

    def admin_view(self, view: Callable[..., HttpResponseBase], cacheable: bool = False) -> Any:
        return csp_override(ADMIN_POLICY)(super().admin_view(view, cacheable))

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponseBase:
        # The only admin page that admin_view does not wrap.
        page: HttpResponseBase = csp_override(ADMIN_POLICY)(super().login)(request, extra_context)
        return page

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        if "internal" in request.GET:
            request.session[SHOWS_INTERNAL] = request.GET["internal"] == "yes"
        context = {"shows_internal": request.session.get(SHOWS_INTERNAL), **(extra_context or {})}
        page: TemplateResponse = super().index(request, context)
        return page

    def is_in_menu(self, model: type[Model]) -> bool:
        """Return whether administrators know the table; the product maintains the others itself."""
        return any(label == model._meta.label_lower for group in GROUPS for label, _ in group.tables)

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[dict[str, Any]]:
        """Return the tables by capability in place of Django's apps; one app's page shows all of its own."""
        found: list[dict[str, Any]] = super().get_app_list(request, app_label)
        if app_label:
            return found
        tables = {table["model"]._meta.label_lower: table for app in found for table in app["models"]}
        groups = []
        for group in shown_groups(request):
            shown = [{**tables[label], "icon": icon} for label, icon in group.tables if label in tables]
            if shown:
                groups.append({"name": group.title, "app_label": "", "app_url": "", "models": shown})
        return groups
