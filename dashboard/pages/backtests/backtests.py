"""Backtests: the team's, one with its figures and rows, and publishing what was tested."""

from collections.abc import Iterator, Sequence
from typing import Any, cast
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.db.models import Count, F, Q
from django.db.models.fields.json import KeyTextTransform
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django_htmx.http import HttpResponseClientRefresh
from pydantic import TypeAdapter, ValidationError

from contextopt.assemblies.models import AssemblyPayload
from contextopt.assemblies.placement.modelcatalog import PriceBook
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.inputs import BigInt
from contextopt.people.models import Role
from contextopt.spaces.configs import ContextConfig, activate_config
from contextopt.spaces.models import Space
from dashboard.kit.filters import offered_spaces, read_text
from dashboard.kit.forms import InputForm
from dashboard.kit.permissions import (
    TeamRequest,
    as_404,
    as_message,
    get_space,
    page_for,
)
from dashboard.kit.responses import render_page, stream_csv
from dashboard.pages.backtests.charts import Step, changes_figure
from dashboard.pages.backtests.verdict import headline, tiles_of
from dashboard.pages.spaces.configs import announce_published, changes_between
from dashboard.pages.spaces.proofs import read_version_proofs
from memory.backtests.backtests import BY_CHANGE, cancel_backtest, find_backtest, start_and_begin
from memory.backtests.figures import (
    REPLAYED,
    BacktestFigures,
    costs_of,
    figures_of,
    read_figures,
    row_dollars,
)
from memory.backtests.inputs import LAST_DEFAULT, LAST_MAX, BacktestIn
from memory.backtests.models import Backtest, BacktestRow

LIST_TEMPLATE = "dashboard/backtests.html"
TEMPLATE = "dashboard/backtest.html"
LIST_SHOWN = 100
VERSIONS_OFFERED = 50
ROWS_SHOWN = 50
DIFFERENCE = F("tokens_after") - F("tokens_before")
CHANGED = REPLAYED & (~Q(tokens_after=F("tokens_before")) | ~Q(added=[]) | ~Q(removed=[]))
BOUNDS: TypeAdapter[tuple[int, int]] = TypeAdapter(tuple[BigInt, BigInt])
# The rows of each tab, by its name in the query string.
TABS = {
    "": ("Changed most", CHANGED),
    "lost": ("Lost evidence", ~Q(lost=[])),
    "gained": ("Gained evidence", ~Q(gained=[])),
    "more": ("More tokens", Q(tokens_after__gt=F("tokens_before"))),
    "empty": ("Newly empty", REPLAYED & Q(empty_before=False, empty_after=True)),
    "skipped": ("Not replayed", ~Q(reason="")),
}


CSV_CHUNK = 500
CSV_FIGURES = (
    "tokens_before", "tokens_after", "empty_before", "empty_after", "evidence_before", "evidence_after",
)  # fmt: skip
CSV_COLUMNS = (
    "assembly_id", "model", *CSV_FIGURES, "added", "removed", "evidence", "lost", "gained",
    "prompt_tokens_before", "prompt_tokens_after", "cached_tokens_before", "cached_tokens_after",
    "dollars_before", "dollars_after", "reason",
)  # fmt: skip


class BacktestForm(InputForm[BacktestIn]):
    input_type = BacktestIn
    config = forms.TypedChoiceField(coerce=int, label="Settings")
    last = forms.IntegerField(
        label="Last contexts",
        initial=LAST_DEFAULT,
        min_value=1,
        max_value=LAST_MAX,
        help_text=f"1 to {LAST_MAX:,}",
    )

    def __init__(self, *args: Any, space: Space, **options: Any) -> None:
        super().__init__(*args, **options)
        versions = list(space.configs.order_by("-version")[:VERSIONS_OFFERED])
        choices = [(each.version, _label(each)) for each in versions]
        cast(forms.ChoiceField, self.fields["config"]).choices = choices


def _label(config: ContextConfig) -> str:
    state = ", active" if config.is_active else ", draft" if config.is_draft else ""
    return f"v{config.version}{state}"


@as_404()
def get_backtest(request: TeamRequest, backtest_id: int) -> Backtest:
    return find_backtest(request.team, backtest_id)


@page_for(Role.VIEWER, "GET POST", to_post=Role.EDITOR)
def backtests(request: TeamRequest) -> HttpResponse:
    """List the team's backtests; a POST starts one of the space in the query string."""
    slug = read_text(request.GET, "space")
    space = get_space(request, slug) if slug else None
    if request.method == "GET":
        initial = {"config": request.GET.get("config")}
        return _render_list(request, space, BacktestForm(initial=initial, space=space) if space else None)
    if space is None:
        messages.error(request, "Choose a space first.")
        return redirect("dashboard:backtests")
    form = BacktestForm(request.POST, space=space)
    if form.is_valid():
        try:
            found = start_and_begin(space=space, data=form.value, actor=request.actor)
        except (Conflict, NotFound) as error:
            form.add_error(None, f"Not started. {error}")
        else:
            return redirect("dashboard:backtest", found.pk)
    return _render_list(request, space, form, status=422)


def _render_list(
    request: TeamRequest, space: Space | None, form: BacktestForm | None, status: int = 200
) -> HttpResponse:
    rows = Backtest.objects.of(request.team).select_related("space", "config").newest_first()
    shown = list((rows.filter(space=space) if space else rows)[:LIST_SHOWN])
    figures = read_figures(shown)
    context = {
        "space": space,
        "spaces": offered_spaces(request.team),
        "form": form,
        "backtests": [(each, figures.get(each.pk, BacktestFigures())) for each in shown],
    }
    return render_page(request, LIST_TEMPLATE, context, status=status)


@page_for(Role.VIEWER, "GET", get_backtest)
def backtest(request: TeamRequest, found: Backtest) -> HttpResponse:
    """Show a backtest. While it runs, its figures poll; once it has ended, the page loads again."""
    if request.htmx and not found.is_running:
        return HttpResponseClientRefresh()
    figures = figures_of(found)
    context = {
        "backtest": found,
        "figures": figures,
        "tiles": tiles_of(figures, costs_of(found)),
    }
    if not request.htmx:
        proofs = read_version_proofs(found.space, found.config)
        if not found.is_running:
            context |= _rows(request, found) | _chart(found)
        context |= {
            "changes": changes_between(found.space.configs.active().get(), found.config),
            "space": found.space,
            "proofs": proofs,
            "headline": headline(figures, proofs.rows),
        }
    return render_page(request, TEMPLATE, context, partials=("progress",))


def _chart(found: Backtest) -> dict[str, object]:
    """Return the chart of the change in tokens of each context that could be replayed."""
    changes = list(found.rows.replayed().values_list(DIFFERENCE, flat=True))
    return {
        "charts": {"changes": changes_figure(changes).to_plotly_json()},
        "fewer": sum(change < 0 for change in changes),
        "unchanged": changes.count(0),
    }


def _what_if(found: Backtest, row: BacktestRow) -> str:
    address = reverse("dashboard:assembly_what_if", args=[row.assembly_id])
    return f"{address}?config={found.config.version}"


def _rows(request: TeamRequest, found: Backtest) -> dict[str, object]:
    """Return a page of the rows that the query string names: those of a tab, or of one bar of the chart."""
    step, chosen = _step(request), request.GET.get("show", "")
    tab = chosen if chosen in TABS else ""
    counted = found.rows.aggregate(
        **{name or "changed": Count("pk", filter=each) for name, (_, each) in TABS.items()}
    )
    rows = BacktestRow.objects.filter(backtest=found)
    if step is None:
        rows = rows.filter(TABS[tab][1])
    else:
        rows = rows.replayed().alias(more=DIFFERENCE).filter(more__range=step)
    try:
        key = BY_CHANGE.decode(request.GET["after"]) if "after" in request.GET else None
    except InvalidInput:
        key = None
    shown, after = BY_CHANGE.page(rows.select_related("assembly__team"), key, ROWS_SHOWN)
    questions, book = _questions(shown), PriceBook()
    dollars = [row_dollars(row, book) for row in shown]
    return {
        "tabs": [
            (name, label, counted[name or "changed"], name == tab and step is None)
            for name, (label, _) in TABS.items()
        ],
        "tab": tab if step is None else "",
        "step": Step(*step, len(shown)) if step else None,
        "rows_query": urlencode({"least": step[0], "most": step[1]} if step else {"show": tab}),
        "rows": [
            (row, questions.get(row.assembly_id, ""), _what_if(found, row), cost)
            for row, cost in zip(shown, dollars, strict=True)
        ],
        "has_costs": any(cost != (None, None) for cost in dollars),
        "after": after,
        "is_first": key is None,
    }


def _step(request: TeamRequest) -> tuple[int, int] | None:
    """Return the bounds of the changes in tokens that the query string names, if it names any."""
    try:
        return BOUNDS.validate_python((request.GET.get("least"), request.GET.get("most")))
    except ValidationError:
        return None


def _questions(rows: Sequence[BacktestRow]) -> dict[int, str]:
    payloads = AssemblyPayload.objects.filter(pk__in=[row.assembly_id for row in rows])
    asked = payloads.annotate(question=KeyTextTransform("query", "request")).values_list("pk", "question")
    return {pk: question or "" for pk, question in asked}


@page_for(Role.VIEWER, "GET", get_backtest)
def backtest_csv(_request: TeamRequest, found: Backtest) -> StreamingHttpResponse:
    """Send every context of the backtest, the newest first."""
    return stream_csv(f"contextopt-backtest-{found.pk}", CSV_COLUMNS, _csv_rows(found))


def _csv_rows(found: Backtest) -> Iterator[list[Any]]:
    rows, book = found.rows.select_related("assembly__team").order_by("-assembly_id"), PriceBook()
    for row in rows.iterator(chunk_size=CSV_CHUNK):
        before, again = row.assembly.split, row.split_after
        figures = [getattr(row, name) for name in CSV_FIGURES]
        records = [len(row.added), len(row.removed), len(row.evidence), len(row.lost), len(row.gained)]
        prompts = [split and split.tokens for split in (before, again)]
        cached = [split and split.cached for split in (before, again)]
        yield [row.assembly_id, row.assembly.model, *figures, *records, *prompts, *cached,
               *row_dollars(row, book), row.reason]  # fmt: skip


@page_for(Role.EDITOR, "POST", get_backtest)
def backtest_cancel(request: TeamRequest, found: Backtest) -> HttpResponse:
    try:
        cancel_backtest(backtest=found)
    except Conflict as error:
        messages.info(request, f"Not cancelled. {error}")
    else:
        messages.success(request, "Cancelled. The contexts that were computed are kept.")
    return redirect("dashboard:backtest", found.pk)


@page_for(Role.EDITOR, "POST", get_backtest)
def backtest_publish(request: TeamRequest, found: Backtest) -> HttpResponse:
    """Make the tested version the active one, unless a question set's minimum forbids it."""
    before = found.space.configs.active().get().version
    with as_message(request, "Not published."):
        activate_config(space=found.space, version=found.config.version, actor=request.actor)
        announce_published(request, found.space, found.config.version, before=before)
    return redirect("dashboard:backtest", found.pk)
