"""The admin site: unfold's, with its own content security policy."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.csp import CSP
from django.views.decorators.csp import csp_override
from unfold.sites import UnfoldAdminSite

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
