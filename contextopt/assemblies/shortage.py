"""Warnings that a context may lack the answer: it is empty or not relevant, or vectors were missing."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from django.db.models import Count

from contextopt.assemblies.candidates import PreparedRequest
from contextopt.assemblies.placement.modelcatalog import model_window
from contextopt.engine.budget import LOW_RELEVANCE, OVER_BUDGET
from contextopt.engine.ranking import Match
from contextopt.engine.rendering import header
from contextopt.engine.settings import (
    HEADER_STAGE,
    LAST_RECORDS_STAGE,
    MAX_PART_TOKENS,
    SEARCH_STAGE,
    SETTINGS,
    ContextConfig,
)
from contextopt.engine.values import (
    BUDGET_TOO_SMALL,
    EMPTY_WINDOW,
    NOT_EMBEDDED,
    NOTHING_RELEVANT,
    Assembled,
    ContextWarning,
    DateRange,
    Remedy,
    TokenAllocation,
)
from contextopt.engine.wording import day, plural
from contextopt.limits import DATE_MIN
from contextopt.search.hybrid import Question
from contextopt.search.models import EmbeddingTodo
from contextopt.sql import fetch_all

ALL_RECORDS = Remedy("question_window_days", "all", "Include all records")
# Warn above this share of candidates without a vector. A smaller share are new records, which are embedded
# within seconds.
MANY_WITHOUT = 0.1
# Waiting records are counted up to this number.
WAITING_COUNTED = 10_000
# Names of a question that a warning lists.
NAMES_SHOWN = 3
# Suggested budgets are multiples of this many tokens.
STEP_TOKENS = 100
# Suggested shares of a model's window are multiples of one part in so many.
SHARE_STEPS = 1_000


def nothing_relevant(
    match: float, least: float, outside_window: int, window_days: int | None
) -> ContextWarning:
    """Return the warning that the best record matches the question less than answers usually do.

    If `window_days` is None, records outside the window can only be dated later.
    """
    message = (
        "No record seems to be about this question, so the answer may not be in this space: the best match "
        f"is {match:.2f}, and answers usually reach {least:.2f}."
    )
    if not outside_window:
        return ContextWarning(NOTHING_RELEVANT, message)
    records = plural(outside_window, "record is", "records are")
    if window_days is None:
        return ContextWarning(NOTHING_RELEVANT, f"{message} {records} dated later.")
    message += f" {records} outside the window."
    return ContextWarning(NOTHING_RELEVANT, message, ALL_RECORDS)


def names_unknown(names: Sequence[str]) -> ContextWarning:
    """Return the warning that the question names something, and no record has any of these names."""
    shown = ", ".join(f"“{name}”" for name in names[:NAMES_SHOWN])
    shown += f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    message = f"The question names {shown}, and no record of this space does, so the answer may not be here."
    return ContextWarning(NOTHING_RELEVANT, message)


def embedding_warnings(
    space_id: int, question: Question, matches: Mapping[int, Match]
) -> Iterator[ContextWarning]:
    """Warn if the question or many of the records could only be matched by words."""
    without = sum(match.similarity is None for match in matches.values())
    if question.degraded:
        yield ContextWarning(
            NOT_EMBEDDED,
            "The question could not be embedded, so records were matched by words only. "
            "See the log for the cause.",
        )
    elif without > len(matches) * MANY_WITHOUT:
        # A record that was written twice has two lines. Count only as far as the warning tells.
        lines = EmbeddingTodo.objects.filter(searchable="record", corpus_id=space_id)
        counted = lines[: WAITING_COUNTED + 1].aggregate(rows=Count("row_id", distinct=True))
        if waiting := counted["rows"]:
            yield _records_not_embedded(waiting)


def _records_not_embedded(waiting: int) -> ContextWarning:
    """Return the warning about records that the question could only match by words."""
    count = f"More than {WAITING_COUNTED:,}" if waiting > WAITING_COUNTED else f"{waiting:,}"
    records, were, them = (
        ("record waits", "it was", "it") if waiting == 1 else ("records wait", "they were", "them")
    )
    message = (
        f"{count} {records} to be embedded, so {were} matched by words only. "
        f"The worker embeds {them} in the background."
    )
    return ContextWarning(NOT_EMBEDDED, message)


def shortage_warnings(asked: PreparedRequest, outcome: Assembled) -> Iterator[ContextWarning]:
    """Yield the reason why the context holds no record, or only pinned ones although another one suits the
    question better. Yield nothing if the space has no records, or the stage takes none.
    """
    stage, stats = asked.config.stage, outcome.stats
    if stage == SEARCH_STAGE and asked.request.asks and stats.records_included:
        yield from _crowded_out(asked, outcome)
    if stage == HEADER_STAGE or stats.records_included:
        return
    if LOW_RELEVANCE in stats.dropped_by_reason:
        # The caller warned that nothing is relevant.
        return
    if stats.records_filtered:
        yield _budget_too_small(asked, outcome)
    elif stats.outside_window:
        yield _empty_window(asked, outcome)


def _crowded_out(asked: PreparedRequest, outcome: Assembled) -> Iterator[ContextWarning]:
    """Warn if pinned records leave no room for one that suits the question better than all kept ones."""
    kept = [entry for entry in outcome.ledger if entry.kept]
    too_large = [entry for entry in outcome.ledger if entry.reason == OVER_BUDGET]
    best = max(too_large, key=lambda entry: entry.score, default=None)
    if best is None or best.score <= max(entry.score for entry in kept) or not kept[0].pinned:
        return
    context = outcome.allocation.context
    room = "no room for others" if all(entry.pinned for entry in kept) else "too little room"
    message = (
        f"The pinned records leave {room} in the context budget of {context:,} tokens. "
        f"A record that suits the question better needs {plural(best.tokens, 'token')}."
        f"{_cause(asked, outcome)}"
    )
    # Pinned records that did not fit would go before it.
    before = sum(entry.tokens for entry in too_large if entry.pinned and entry.id != best.id)
    needed = max(context, outcome.stats.tokens_used) + before + best.tokens
    yield ContextWarning(BUDGET_TOO_SMALL, message, _larger_budget(asked, outcome, needed))


def _empty_window(asked: PreparedRequest, outcome: Assembled) -> ContextWarning:
    days, as_of = asked.effective_config.effective_window_days, asked.as_of
    before, after = _nearest_dates(asked.space.id, DateRange.ending_at(as_of, days))
    count = outcome.stats.outside_window
    all_records = "The only record is" if count == 1 else f"All {count:,} records are"
    if before is None:
        since = "" if after is None else f"; the first is from {day(after)}"
        return ContextWarning(EMPTY_WINDOW, f"{all_records} dated after {day(as_of)}{since}.")
    assert days is not None, "without a window, no record is too old"
    window = f"the window of {plural(days, 'day')}"
    if after is None:
        newest = "it" if count == 1 else "the newest"
        message = f"{all_records} older than {window}; {newest} is from {day(before)}."
    else:
        older = f"the newest older one is from {day(before)}"
        message = f"None of the {count:,} records is in {window}; {older}."
    return ContextWarning(EMPTY_WINDOW, message, _wider_window(asked, before))


def _nearest_dates(space_id: int, window: DateRange) -> tuple[datetime | None, datetime | None]:
    """Return the date of the newest record before the window, and of the first one after it."""
    [(before, after)] = fetch_all(
        """
        SELECT (SELECT max(date) FROM contextopt_record
                 WHERE space_id = %(space)s AND deleted_at IS NULL AND date < %(start)s),
               (SELECT min(date) FROM contextopt_record
                 WHERE space_id = %(space)s AND deleted_at IS NULL AND date > %(end)s)
        """,
        {"space": space_id, "start": window.start or DATE_MIN, "end": window.end},
    )
    return before, after


def _wider_window(asked: PreparedRequest, newest: datetime) -> Remedy:
    """Return the smallest window that holds the newest older record."""
    if asked.effective_config.stage == SEARCH_STAGE:
        return ALL_RECORDS
    for days, label in (SETTINGS["window_days"].choices or {}).items():
        if days is not None and newest in DateRange.ending_at(asked.as_of, days):
            return Remedy("window_days", days, f"Widen the window to {label}")
    return Remedy("window_days", "all", "Include all records")


def _budget_too_small(asked: PreparedRequest, outcome: Assembled) -> ContextWarning:
    count, best = outcome.stats.records_filtered, outcome.ledger[0].tokens
    own = asked.tokenizer.count(header(asked.space.shown, outcome.day) + "\n")
    records = "the only record" if count == 1 else f"any of the {count:,} records"
    message = (
        f"The context budget of {outcome.allocation.context:,} tokens is too small for {records}: the best "
        f"one needs {best:,} tokens, plus {own:,} for the space's name and description."
        f"{_cause(asked, outcome)}"
    )
    return ContextWarning(BUDGET_TOO_SMALL, message, _larger_budget(asked, outcome, own + best))


def _excesses(config: ContextConfig, allocation: TokenAllocation) -> tuple[int, int]:
    """Return by how many tokens the system text and the history exceed their shares."""
    system, history = allocation.system - config.system_tokens, allocation.history - config.history_tokens
    return max(0, system), max(0, history)


def _cause(asked: PreparedRequest, outcome: Assembled) -> str:
    """Say which parts of the prompt took tokens from the context's share; an empty text if none did."""
    config, allocation = asked.config, outcome.allocation
    share = config.context_share(config.stage)
    if allocation.context >= share:
        return ""
    shares = (("system text", config.system_tokens), ("history", config.history_tokens))
    taken = [
        f"the {part} is {plural(over, 'token')} over its share of {own:,}"
        for (part, own), over in zip(shares, _excesses(config, allocation), strict=True)
        if over
    ]
    reason = " and ".join(taken) or f"the total is limited to {allocation.total:,}"
    return f" {allocation.context:,} of its {share:,} tokens are left, because {reason}."


def _larger_budget(asked: PreparedRequest, outcome: Assembled, needed: int) -> Remedy | None:
    """Return the setting to raise: the context's share, or the total if other parts used it up."""
    config, allocation = asked.config, outcome.allocation
    share, excess = config.context_share(config.stage), sum(_excesses(config, allocation))
    if needed <= share:
        # Without room for the context, the other parts may even exceed the total.
        shares = config.system_tokens + config.history_tokens + config.response_tokens
        room = allocation.context or allocation.total - shares - excess
        total = allocation.total + _rounded_up(needed - room)
        return Remedy("total_tokens", total, f"Raise the total to {total:,} tokens")
    # Without a fixed total, the excess is taken from the raised share too.
    tokens = _rounded_up(needed + (excess if config.total_tokens is None else 0))
    part, model = asked.request.window_share, asked.request.model
    if part is not None and share == int(model_window(model) * part):
        return _larger_share(model_window(model), tokens)
    if tokens > MAX_PART_TOKENS:
        return None
    name = "stage3_context_tokens" if config.stage == LAST_RECORDS_STAGE else "context_tokens"
    return Remedy(name, tokens, f"Raise the context budget to {tokens:,} tokens")


def _larger_share(window_tokens: int, tokens: int) -> Remedy | None:
    """Return the share of the model's window that has room for this many tokens, if it has."""
    steps = -(-tokens * SHARE_STEPS // window_tokens)
    if steps > SHARE_STEPS:
        return None
    share = Decimal(steps) / SHARE_STEPS
    return Remedy("window_share", str(share), f"Raise the share of the model's window to {share * 100:.1f} %")


def _rounded_up(tokens: int) -> int:
    return -(-tokens // STEP_TOKENS) * STEP_TOKENS
