"""Computes the last contexts of a space again under other settings."""

from collections.abc import Sequence
from typing import Any

import structlog
from django.db import transaction
from django.utils import timezone

from contextopt.assemblies.replay.cost import replayed_sizes
from contextopt.assemblies.replay.inputs import ReplayIn
from contextopt.assemblies.replay.replay import Replay, replay_assembly, shown_records
from contextopt.engine.prompts.config import LAST_RECORDS_STAGE
from contextopt.errors import PRODUCT_ERRORS, Conflict, ServiceUnavailable
from contextopt.locks import Lock, hold_space
from contextopt.lookups import find_one
from contextopt.models import Assembly, Kind, Space, Team
from contextopt.spaces.configs import find_config
from memory.backtests.evidence import read_evidence
from memory.backtests.inputs import BacktestIn
from memory.backtests.models import Backtest, BacktestRow, BacktestState
from memory.work import BATCH, Work

BACKTEST = "memory.tasks.backtest"
# Per space, at the same time.
RUNNING_MAX = 3
# Older backtests of a space are deleted.
KEPT = 20
REFUSED = "refused"
UNAVAILABLE = "unavailable"
WRITTEN = (
    "is_done", "tokens_after", "change", "empty_after", "is_reconstructed", "added", "removed", "evidence",
    "evidence_before", "evidence_after", "lost", "gained", "prompt_after", "cached_after", "cacheable_after",
    "reason", "message",
)  # fmt: skip

log = structlog.get_logger(__name__)


def find_backtest(team: Team, backtest_id: int) -> Backtest:
    """Return the team's backtest with its space and config.

    Raises:
        NotFound: the team has no such backtest.
    """
    rows = Backtest.objects.of(team).select_related("space__team", "config")
    return find_one(rows.filter(pk=backtest_id), f"backtest {backtest_id}")


@transaction.atomic
def start_backtest(*, space: Space, data: BacktestIn, actor: str) -> Backtest:
    """Choose the contexts, without computing anything yet.

    Raises:
        NotFound: the space has no such version of settings.
        Conflict: the space has no contexts yet, or other backtests of it are running.
    """
    space.lock()
    config = find_config(space, data.config)
    if Backtest.objects.filter(space=space).running().count() >= RUNNING_MAX:
        raise Conflict(f"{RUNNING_MAX} backtests of this space are running. Wait for one or cancel it.")
    logged = Assembly.objects.filter(space=space, kind=Kind.SPACE).newest_first()[: data.last]
    if not (chosen := list(logged)):
        raise Conflict("This space has no logged contexts yet.")
    backtest = Backtest.objects.create(space=space, config=config, last=data.last, created_by=actor)
    # The oldest first, so that the newest have the highest ids.
    BacktestRow.objects.bulk_create(
        BacktestRow(
            backtest=backtest, assembly=each, tokens_before=each.tokens_after, empty_before=each.is_empty
        )
        for each in reversed(chosen)
    )  # fmt: skip
    _forget_old(space)
    return backtest


def _forget_old(space: Space) -> None:
    old = space.backtests.exclude(state=BacktestState.RUNNING).newest_first()[KEPT:]
    Backtest.objects.filter(pk__in=list(old.values_list("pk", flat=True))).delete()


def start_and_begin(*, space: Space, data: BacktestIn, actor: str) -> Backtest:
    """Start a backtest and compute the first contexts at once; a worker goes on with the rest.

    Raises:
        NotFound, Conflict: see `start_backtest`.
    """
    backtest = start_backtest(space=space, data=data, actor=actor)
    BACKTESTS.begin(backtest)
    return backtest


def cancel_backtest(*, backtest: Backtest) -> Backtest:
    """Stop a backtest. The rows that were computed stay.

    Raises:
        Conflict: it is not running.
    """
    running = Backtest.objects.filter(pk=backtest.pk).running()
    if not running.update(state=BacktestState.CANCELLED, finished_at=timezone.now()):
        raise Conflict("This backtest is no longer running.")
    backtest.refresh_from_db(fields=["state", "finished_at"])
    return backtest


def _next_rows(backtest: Backtest) -> list[BacktestRow]:
    rows = backtest.rows.waiting().select_related(
        "assembly__payload", "assembly__space", "assembly__config", "assembly__team"
    )
    return list(rows.order_by("-pk")[:BATCH])


def _compute(backtest: Backtest, rows: Sequence[BacktestRow]) -> None:
    evidence = read_evidence(backtest.space, [row.assembly for row in rows])
    asked = ReplayIn(config=backtest.config.version)
    for row in rows:
        _fill(row, asked, evidence.get(row.assembly_id, frozenset()))
    with transaction.atomic():
        hold_space(backtest.space_id)
        BacktestRow.objects.bulk_update(rows, WRITTEN)
        backtest.worked_at = timezone.now()
        backtest.save(update_fields=["worked_at"])


def _fill(row: BacktestRow, asked: ReplayIn, evidence: frozenset[int]) -> None:
    """Write the outcome of one replay into its row."""
    row.is_done = True
    try:
        again = replay_assembly(row.assembly, asked)
    except ServiceUnavailable as error:
        row.reason, row.message = UNAVAILABLE, str(error)
    except PRODUCT_ERRORS as error:
        row.reason, row.message = REFUSED, str(error)
    else:
        for name, value in {**_outcome(row, again, evidence), **_sizes(again, asked)}.items():
            setattr(row, name, value)


def _outcome(row: BacktestRow, again: Replay, evidence: frozenset[int]) -> dict[str, Any]:
    if again.result is None:
        return {"reason": str(again.reason), "message": again.message}
    tokens = again.result.certificate.total_tokens
    before = set(shown_records(row.assembly.payload))
    after = (before | set(again.added)) - set(again.removed)
    return {
        "tokens_after": tokens,
        "change": abs(tokens - row.tokens_before),
        "empty_after": again.result.stage >= LAST_RECORDS_STAGE and not again.result.stats.records_included,
        "is_reconstructed": again.is_reconstructed,
        "added": again.added,
        "removed": again.removed,
        "evidence": sorted(evidence),
        "evidence_before": len(evidence & before),
        "evidence_after": len(evidence & after),
        "lost": sorted((evidence & before) - after),
        "gained": sorted((evidence & after) - before),
    }


def _sizes(again: Replay, asked: ReplayIn) -> dict[str, int]:
    """Return what the provider's cache would do with the prompt; nothing outside of a conversation."""
    sizes = replayed_sizes(again, asked)
    if sizes is None or sizes.split is None:
        return {}
    split = sizes.split
    return {
        "prompt_after": sizes.prompt_tokens,
        "cached_after": split.cached,
        "cacheable_after": split.cacheable,
    }


def _finish(backtest: Backtest) -> None:
    now = timezone.now()
    Backtest.objects.filter(pk=backtest.pk).running().update(state=BacktestState.DONE, finished_at=now)
    backtest.refresh_from_db(fields=["state", "finished_at"])
    log.info("backtest_finished", backtest_id=backtest.pk, state=backtest.state)


BACKTESTS = Work(BACKTEST, Lock.BACKTEST, _next_rows, _compute, _finish)
