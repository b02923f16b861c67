"""The admin site that every app registers its tables with: unfold's, with its own content security policy.

Its menu has the tables by capability, configuration first. A test names any table that is missing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db.models import Model
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.csp import CSP
from django.views.decorators.csp import csp_override
from unfold.sites import UnfoldAdminSite

SHOWS_INTERNAL = "admin_internal"


@dataclass(frozen=True, slots=True)
class Group:
    """Tables of one capability: the name of each model and its symbol in Unfold's font."""

    title: str
    tables: tuple[tuple[str, str], ...]


GROUPS = (
    Group(
        "Configuration",
        (
            ("contextopt.contextconfig", "tune"),
            ("contextopt.phaseprofile", "filter_alt"),
            ("contextopt.phaselink", "link"),
            ("contextopt.handoffsettings", "sync_alt"),
            ("contextopt.retrysettings", "difference"),
            ("contextopt.standingdocument", "rule"),
            ("contextopt.gatewaypolicy", "alt_route"),
            ("memory.memorypolicy", "psychology"),
            ("memory.halflife", "hourglass_bottom"),
            ("memory.reviewrules", "rule"),
            ("dashboard.modelprice", "payments"),
        ),
    ),
    Group(
        "People and keys",
        (
            ("contextopt.user", "person"),
            ("contextopt.team", "groups"),
            ("contextopt.membership", "badge"),
            ("contextopt.invitation", "mail"),
            ("contextopt.apikey", "key"),
            ("contextopt.connectcode", "key"),
            ("contextopt.auditevent", "history"),
        ),
    ),
    Group(
        "Spaces and contexts",
        (
            ("contextopt.space", "inventory_2"),
            ("contextopt.record", "description"),
            ("contextopt.assembly", "layers"),
            ("contextopt.correction", "published_with_changes"),
            ("contextopt.conversation", "forum"),
            ("contextopt.message", "chat"),
            ("contextopt.gatewayrequest", "swap_horiz"),
            ("contextopt.gatewaygap", "report"),
            ("contextopt.tokenfactor", "calculate"),
            ("contextopt.importrun", "upload_file"),
        ),
    ),
    Group(
        "Agents",
        (
            ("contextopt.task", "task_alt"),
            ("contextopt.attempt", "replay"),
            ("contextopt.finding", "lightbulb"),
            ("contextopt.resolution", "gavel"),
            ("contextopt.phasecompression", "compress"),
            ("contextopt.completion", "flag"),
            ("contextopt.repository", "account_tree"),
        ),
    ),
    Group(
        "Memory and feedback",
        (
            ("memory.memory", "memory"),
            ("memory.vote", "thumbs_up_down"),
            ("memory.reviewitem", "rate_review"),
            ("memory.questionset", "quiz"),
            ("memory.evaluation", "speed"),
            ("memory.backtest", "replay"),
        ),
    ),
)
INTERNAL = Group(
    "Internal tables",
    tuple(
        (label, "database")
        for label in (
            "auth.group",
            "contextopt.assemblypayload",
            "contextopt.importpart",
            "contextopt.recordrevision",
            "contextopt.recordview",
            "contextopt.recordembedding",
            "contextopt.embeddingmodel",
            "contextopt.embeddingfill",
            "contextopt.embeddingtodo",
            "contextopt.searchcorpus",
            "contextopt.documentfrequency",
            "contextopt.spacecounts",
            "contextopt.spacehour",
            "contextopt.repositoryfile",
            "contextopt.repositoryhistory",
            "contextopt.codeblob",
            "contextopt.blob",
            "contextopt.receiverfile",
            "contextopt.storedresponse",
            "contextopt.throttle",
            "memory.externalmessage",
            "memory.memoryembedding",
            "memory.strategyuse",
            "memory.trustchange",
            "dashboard.savedview",
        )
    ),
)


def shown_groups(request: HttpRequest) -> tuple[Group, ...]:
    """Return the groups to show: the internal tables only if this visitor asked for them."""
    return (*GROUPS, INTERNAL) if request.session.get(SHOWS_INTERNAL) else GROUPS


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the sidebar in the form that Unfold reads."""
    overview = {"title": "Health", "icon": "monitor_heart", "link": reverse("admin:index")}
    return [
        {"items": [overview]},
        *(
            {
                "title": group.title,
                "separator": True,
                "items": [_item(label, icon) for label, icon in group.tables],
            }
            for group in shown_groups(request)
        ),
    ]


def _item(label: str, icon: str) -> dict[str, Any]:
    model = apps.get_model(label)._meta
    permission = f"{model.app_label}.view_{model.model_name}"
    return {
        "title": str(model.verbose_name_plural)[:1].upper() + str(model.verbose_name_plural)[1:],
        "icon": icon,
        "link": reverse(f"admin:{model.app_label}_{model.model_name}_changelist"),
        "permission": lambda request: request.user.has_perm(permission),
    }


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
