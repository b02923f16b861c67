"""Warnings that a context may lack the answer: it is empty or not relevant, or vectors were missing."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from contextopt.assemblies.placement.modelcatalog import model_window
from contextopt.engine.adaptive import LOW_RELEVANCE
from contextopt.engine.budget import OVER_BUDGET
from contextopt.engine.rendering import header
from contextopt.engine.settings import (
    HEADER_STAGE,
    LAST_RECORDS_STAGE,
    MAX_PART_TOKENS,
    SEARCH_STAGE,
    SETTINGS,
    ContextConfig,
)
from contextopt.engine.text.tokens import Tokenizer
from contextopt.engine.values import Assembled, DateRange, SpaceContext
from contextopt.engine.warnings import (
    BUDGET_TOO_SMALL,
    EMPTY_WINDOW,
    NOT_EMBEDDED,
    NOTHING_RELEVANT,
    ContextWarning,
    Remedy,
)
from contextopt.engine.wording import day, plural
from contextopt.limits import DATE_MIN
from contextopt.sql import fetch_all

QUESTION_NOT_EMBEDDED = ContextWarning(
    NOT_EMBEDDED,
    "The question could not be embedded, so records were matched by words only. See the log for the cause.",
)
ALL_RECORDS = Remedy("question_window_days", "all", "Include all records")
# Waiting records are counted up to this number.
WAITING_COUNTED = 10_000
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


def records_not_embedded(waiting: int) -> ContextWarning:
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


@dataclass(frozen=True, slots=True)
class Emptiness:
    """Explains why an assembly holds no record, or only pinned ones although another one suits
    the question better.

    `window_share` is the share of the window of `model` that the request limits the context to.
    """

    space_id: int
    space: SpaceContext
    config: ContextConfig
    as_of: datetime
    tokenizer: Tokenizer
    outcome: Assembled
    model: str = ""
    window_share: Decimal | None = None

    def warnings(self) -> Iterator[ContextWarning]:
        """Yield the reason why the context holds no record, or only pinned ones. Yield nothing if the space
        has none, or the stage takes none.
        """
        stats = self.outcome.stats
        if self.config.stage == SEARCH_STAGE and stats.records_included:
            yield from self._crowded_out()
        if self.config.stage == HEADER_STAGE or stats.records_included:
            return
        if LOW_RELEVANCE in stats.dropped_by_reason:
            # The caller warned that nothing is relevant.
            return
        if stats.records_filtered:
            yield self._budget_too_small()
        elif stats.outside_window:
            yield self._empty_window()

    def _crowded_out(self) -> Iterator[ContextWarning]:
        """Warn if pinned records leave no room for one that suits the question better."""
        kept = [entry for entry in self.outcome.ledger if entry.kept]
        best = max(
            (entry for entry in self.outcome.ledger if entry.reason == OVER_BUDGET),
            key=lambda entry: entry.score,
            default=None,
        )
        if best is None or not all(entry.pinned and entry.score < best.score for entry in kept):
            return
        context = self.outcome.allocation.context
        message = (
            f"The pinned records leave no room for others in the context budget of {context:,} tokens. "
            f"A record that suits the question better needs {plural(best.tokens, 'token')}.{self._cause()}"
        )
        needed = max(context, self.outcome.stats.tokens_used) + best.tokens
        yield ContextWarning(BUDGET_TOO_SMALL, message, self._larger_budget(needed))

    def _empty_window(self) -> ContextWarning:
        before, after = self._nearest_dates()
        count = self.outcome.stats.outside_window
        all_records = "The only record is" if count == 1 else f"All {count:,} records are"
        if before is None:
            since = "" if after is None else f"; the first is from {day(after)}"
            return ContextWarning(EMPTY_WINDOW, f"{all_records} dated after {day(self.as_of)}{since}.")
        days = self.config.effective_window_days
        assert days is not None, "without a window, no record is too old"
        window = f"the window of {plural(days, 'day')}"
        if after is None:
            newest = "it" if count == 1 else "the newest"
            message = f"{all_records} older than {window}; {newest} is from {day(before)}."
        else:
            older = f"the newest older one is from {day(before)}"
            message = f"None of the {count:,} records is in {window}; {older}."
        return ContextWarning(EMPTY_WINDOW, message, self._wider_window(before))

    def _wider_window(self, newest: datetime) -> Remedy:
        """Return the smallest window that holds the newest older record."""
        if self.config.stage == SEARCH_STAGE:
            return ALL_RECORDS
        for days, label in (SETTINGS["window_days"].choices or {}).items():
            if days is not None and newest in DateRange.ending_at(self.as_of, days):
                return Remedy("window_days", days, f"Widen the window to {label}")
        return Remedy("window_days", "all", "Include all records")

    def _budget_too_small(self) -> ContextWarning:
        allocation, stats = self.outcome.allocation, self.outcome.stats
        best = self.outcome.ledger[0].tokens
        own = self.tokenizer.count(header(self.space, self.outcome.day) + "\n")
        count = stats.records_filtered
        records = "the only record" if count == 1 else f"any of the {count:,} records"
        message = (
            f"The context budget of {allocation.context:,} tokens is too small for {records}: the best "
            f"one needs {best:,} tokens, plus {own:,} for the space's name and description.{self._cause()}"
        )
        return ContextWarning(BUDGET_TOO_SMALL, message, self._larger_budget(own + best))

    def _cause(self) -> str:
        """Say which parts of the prompt took tokens from the context's share; an empty text if none did."""
        share, context = self.config.context_share(self.config.stage), self.outcome.allocation.context
        if context >= share:
            return ""
        taken = [
            f"the {part} is {plural(over, 'token')} over its share of {own:,}"
            for part, own, over in self._excesses()
            if over
        ]
        reason = " and ".join(taken) or f"the total is limited to {self.outcome.allocation.total:,}"
        return f" {context:,} of its {share:,} tokens are left, because {reason}."

    def _excesses(self) -> tuple[tuple[str, int, int], tuple[str, int, int]]:
        """Return the share of system and history, and by how many tokens each exceeds it."""
        config, allocation = self.config, self.outcome.allocation
        return (
            ("system text", config.system_tokens, max(0, allocation.system - config.system_tokens)),
            ("history", config.history_tokens, max(0, allocation.history - config.history_tokens)),
        )

    def _larger_budget(self, needed: int) -> Remedy | None:
        """Return the setting to raise: the context's share, or the total if other parts used it up."""
        config, stage, allocation = self.config, self.config.stage, self.outcome.allocation
        excess = sum(over for _, _, over in self._excesses())
        if needed <= config.context_share(stage):
            # Without room for the context, the other parts may even exceed the total.
            shares = config.system_tokens + config.history_tokens + config.response_tokens
            room = allocation.context or allocation.total - shares - excess
            total = allocation.total + _rounded_up(needed - room)
            return Remedy("total_tokens", total, f"Raise the total to {total:,} tokens")
        name = "stage3_context_tokens" if stage == LAST_RECORDS_STAGE else "context_tokens"
        # Without a fixed total, the excess is taken from the raised share too.
        tokens = _rounded_up(needed + (excess if config.total_tokens is None else 0))
        if self._is_limited_by_window():
            return self._larger_share(tokens)
        if tokens > MAX_PART_TOKENS:
            return None
        return Remedy(name, tokens, f"Raise the context budget to {tokens:,} tokens")

    def _is_limited_by_window(self) -> bool:
        if self.window_share is None:
            return False
        return self.config.context_share(self.config.stage) == int(
            model_window(self.model) * self.window_share
        )

    def _larger_share(self, tokens: int) -> Remedy | None:
        """Return the share of the model's window that has room for this many tokens, if it has."""
        steps = -(-tokens * SHARE_STEPS // model_window(self.model))
        if steps > SHARE_STEPS:
            return None
        share = Decimal(steps) / SHARE_STEPS
        return Remedy(
            "window_share", str(share), f"Raise the share of the model's window to {share * 100:.1f} %"
        )

    def _nearest_dates(self) -> tuple[datetime | None, datetime | None]:
        """Return the date of the newest record before the window, and of the first one after it."""
        window = DateRange.ending_at(self.as_of, self.config.effective_window_days)
        [(before, after)] = fetch_all(
            """
            SELECT (SELECT max(date) FROM contextopt_record
                     WHERE space_id = %(space)s AND deleted_at IS NULL AND date < %(start)s),
                   (SELECT min(date) FROM contextopt_record
                     WHERE space_id = %(space)s AND deleted_at IS NULL AND date > %(end)s)
            """,
            {"space": self.space_id, "start": window.start or DATE_MIN, "end": window.end},
        )
        return before, after


def _rounded_up(tokens: int) -> int:
    return -(-tokens // STEP_TOKENS) * STEP_TOKENS
