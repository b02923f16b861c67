"""Computes the last contexts of a space again under other settings."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from django.db import transaction
from django.utils import timezone
from pydantic import TypeAdapter

from contextopt.assemblies.inputs import ReplayIn
from contextopt.assemblies.models import Assembly, Kind
from contextopt.assemblies.replay.replay import Replay, replay_assembly, replayed_sizes, shown_records
from contextopt.engine.settings import LAST_RECORDS_STAGE
from contextopt.errors import PRODUCT_ERRORS, Conflict, ServiceUnavailable
from contextopt.inputs import BigInt
from contextopt.locks import Lock, hold_space
from contextopt.paging import Keyset
from contextopt.people.models import Team
from contextopt.spaces.configs import find_config
from contextopt.spaces.models import Space
from contextopt.sql import find_one
from memory.backtests.inputs import BacktestIn
from memory.backtests.models import Backtest, BacktestRow, BacktestState
from memory.feedback.models import Rating, Vote
from memory.feedback.recordusage import answer_text, read_use
from memory.questions.growth import WANTED
from memory.questions.models import ExpectedRecord
from memory.review.models import ItemState, ReviewSlot
from memory.work import BATCH, Work

log = structlog.get_logger(__name__)

type Evidence = Mapping[int, frozenset[int]]


def read_evidence(space: Space, assemblies: Sequence[Assembly]) -> Evidence:
    """Return the ids of records that matter, by assembly. The assemblies come with their payloads."""
    found: dict[int, set[int]] = defaultdict(set)
    _add_upvoted(assemblies, found)
    _add_verdicts(assemblies, found)
    _add_questions(space, assemblies, found)
    return {assembly_id: frozenset(ids) for assembly_id, ids in found.items()}


def _add_upvoted(assemblies: Sequence[Assembly], found: dict[int, set[int]]) -> None:
    """Add the records that upvoted answers probably used, unless someone downvoted the answer as well."""
    votes = Vote.objects.filter(assembly__in=assemblies).values_list("assembly_id", "rating")
    ratings: dict[int, set[str]] = defaultdict(set)
    for assembly_id, rating in votes:
        ratings[assembly_id].add(rating)
    for assembly in assemblies:
        if ratings.get(assembly.pk) == {Rating.UP} and assembly.stored_payload:
            used = read_use(assembly.payload, answer_text(assembly))
            found[assembly.pk].update(record_id for record_id, use in used.items() if use.is_used)


def _add_verdicts(assemblies: Sequence[Assembly], found: dict[int, set[int]]) -> None:
    """Add the records that reviewers missed, once a review is complete."""
    slots = ReviewSlot.objects.filter(
        item__assembly__in=assemblies, item__state=ItemState.DONE, verdict__in=WANTED
    )
    for assembly_id, record_ids in slots.values_list("item__assembly_id", "record_ids"):
        found[assembly_id].update(record_ids)


def _add_questions(space: Space, assemblies: Sequence[Assembly], found: dict[int, set[int]]) -> None:
    """Add the records expected by questions with the same words as the request."""
    asked: dict[str, list[int]] = defaultdict(list)
    for assembly in assemblies:
        payload = assembly.stored_payload
        if payload is not None and (text := str(payload.request.get("query") or "").strip()):
            asked[text].append(assembly.pk)
    expected = ExpectedRecord.objects.filter(
        question__question_set__space=space, question__text__in=list(asked)
    )
    for text, record_id in expected.values_list("question__text", "record_id"):
        for assembly_id in asked[text]:
            found[assembly_id].add(record_id)


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
    old = space.backtests.exclude(state=BacktestState.RUNNING).newest_first()[KEPT:]
    Backtest.objects.filter(pk__in=list(old.values_list("pk", flat=True))).delete()
    return backtest


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
    tokens, stage = again.result.certificate.total_tokens, again.result.asked.config.stage
    before = set(shown_records(row.assembly.payload))
    after = (before | set(again.added)) - set(again.removed)
    return {
        "tokens_after": tokens,
        "change": abs(tokens - row.tokens_before),
        "empty_after": stage >= LAST_RECORDS_STAGE and not again.result.stats.records_included,
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


# The largest change in tokens first.
BY_CHANGE = Keyset(
    "backtest row", ("change", "id"), is_descending=True, key=TypeAdapter(tuple[BigInt, BigInt])
)
