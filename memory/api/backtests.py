"""Endpoints for backtests: starting one, its figures and rows, and cancelling it."""

from datetime import datetime
from typing import Any, Literal, TypedDict

from django.http import HttpResponse
from ninja import Path, Query, Router

from contextopt.api.protocol.authentication import (
    READ,
    WRITE,
    ApiRequest,
    actor,
    find_space,
    is_reached,
    within_spaces,
)
from contextopt.api.protocol.outputs import PageQuery, created, list_page, page_of, reply
from contextopt.inputs import Id, Slug, show
from contextopt.paging import by_moment
from memory.backtests.backtests import BY_CHANGE, cancel_backtest, find_backtest, start_and_begin
from memory.backtests.figures import (
    FIGURES,
    BacktestCosts,
    BacktestFigures,
    costs_of,
    figures_of,
    read_costs,
    read_figures,
)
from memory.backtests.inputs import BacktestIn
from memory.backtests.models import Backtest, BacktestRow

router = Router(tags=["Backtests"])
BY_TIME = by_moment("backtest", "created_at")

BacktestStateName = Literal["running", "done", "cancelled"]
ReasonName = Literal[
    "", "purged", "encoder_changed", "engine_changed", "logged_before", "question_not_kept", "refused",
    "unavailable",
]  # fmt: skip


class BacktestOut(TypedDict):
    """The last contexts of a space, computed again under one version of its settings, in sums."""

    id: int
    space: str
    config_version: int
    last: int
    state: BacktestStateName
    assemblies: int
    computed: int
    replayed: int
    tokens_before: int
    tokens_after: int
    more_tokens: int
    empty_before: int
    empty_after: int
    newly_empty: int
    evidence: int
    evidence_before: int
    evidence_kept: int
    priced: int
    dollars_before: float | None
    dollars_after: float | None
    created_by: str
    created_at: datetime
    finished_at: datetime | None


class BacktestRowOut(TypedDict):
    """One context as logged and under the version, or the reason why it could not be computed."""

    assembly_id: int
    tokens_before: int
    tokens_after: int | None
    empty_before: bool
    empty_after: bool
    reconstructed: bool
    added: list[int]
    removed: list[int]
    evidence_ids: list[int]
    lost: list[int]
    gained: list[int]
    reason: ReasonName
    message: str


in_own_backtests = within_spaces(backtest_id=lambda key, pk: is_reached(key, Backtest.objects.filter(pk=pk)))


def backtest_json(backtest: Backtest, figures: BacktestFigures, costs: BacktestCosts) -> dict[str, Any]:
    return show(
        BacktestOut,
        backtest,
        space=backtest.space.slug,
        config_version=backtest.config.version,
        computed=figures.done,
        replayed=figures.replayed,
        **{name: getattr(figures, name) for name in FIGURES},
        **costs.to_json(),
    )


def _json_of(backtest: Backtest) -> dict[str, Any]:
    return backtest_json(backtest, figures_of(backtest), costs_of(backtest))


def row_json(row: BacktestRow) -> dict[str, Any]:
    return show(BacktestRowOut, row, reconstructed=row.is_reconstructed, evidence_ids=row.evidence)


@router.get("/spaces/{slug}/backtests", auth=READ, response=page_of(BacktestOut), summary="List backtests")
@within_spaces()
def list_backtests(request: ApiRequest, slug: Path[Slug], page: Query[PageQuery]) -> HttpResponse:
    """Returns the space's backtests, newest first. The last 20 are kept."""
    rows = Backtest.objects.filter(space=find_space(request, slug)).select_related("space__team", "config")
    key = None if page.cursor is None else BY_TIME.decode(page.cursor)
    shown, next_cursor = BY_TIME.page(rows, key, page.limit)
    figures, costs = read_figures(shown), read_costs(shown)
    items = [
        backtest_json(each, figures.get(each.pk, BacktestFigures()), costs.get(each.pk, BacktestCosts()))
        for each in shown
    ]
    return reply({"items": items, "next_cursor": next_cursor})


@router.post(
    "/spaces/{slug}/backtests", auth=WRITE, response={201: BacktestOut}, summary="Start a backtest"
)  # fmt: skip
@within_spaces()
def start_backtest(request: ApiRequest, slug: Path[Slug], data: BacktestIn) -> HttpResponse:
    """Computes the last contexts of the space again under a version of its settings, such as a draft.

    A short backtest is finished in the response. For a longer one, read it until its `state` is `done`.
    """
    backtest = start_and_begin(space=find_space(request, slug), data=data, actor=actor(request))
    return created(_json_of(backtest), f"/api/v1/backtests/{backtest.pk}")


@router.get("/backtests/{backtest_id}", auth=READ, response=BacktestOut, summary="Read a backtest")
@in_own_backtests
def read_backtest(request: ApiRequest, backtest_id: Path[Id]) -> HttpResponse:
    """Returns the sums over the contexts computed so far."""
    backtest = find_backtest(request.auth.team, backtest_id)
    return reply(_json_of(backtest))


@router.get(
    "/backtests/{backtest_id}/rows",
    auth=READ,
    response=page_of(BacktestRowOut),
    summary="List a backtest's contexts",
)
@in_own_backtests
def list_rows(request: ApiRequest, backtest_id: Path[Id], page: Query[PageQuery]) -> HttpResponse:
    """Returns the contexts computed so far, the largest change in tokens first."""
    rows = BacktestRow.objects.filter(backtest=find_backtest(request.auth.team, backtest_id), is_done=True)
    return reply(list_page(rows, BY_CHANGE, page, row_json))


@router.post("/backtests/{backtest_id}/cancel", auth=WRITE, response=BacktestOut, summary="Cancel a backtest")
@in_own_backtests
def cancel(request: ApiRequest, backtest_id: Path[Id]) -> HttpResponse:
    """Stops a running backtest. Rows already computed stay."""
    backtest = cancel_backtest(backtest=find_backtest(request.auth.team, backtest_id))
    return reply(_json_of(backtest))
