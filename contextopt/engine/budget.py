"""Divide the total between system, history, context and response, and cut the ranking to its share."""

from collections.abc import Sequence
from dataclasses import dataclass

from contextopt.engine.ranking import Scored
from contextopt.engine.settings import ContextConfig
from contextopt.engine.validation import MAX_INT, BudgetExceeded, check_optional_int
from contextopt.engine.values import WHOLE_SHARES, PartSizes, TokenAllocation


def allocate(
    config: ContextConfig,
    sizes: PartSizes = WHOLE_SHARES,
    *,
    stage: int | None = None,
    carried_tokens: int = 0,
) -> TokenAllocation:
    """Divide the total. The response always keeps its reservation.

    The excess of a size over its share is taken from the context first. The unused part of a share goes to
    the response, never to the context. `stage` overrides the config's stage. The context includes
    `carried_tokens` of blocks from earlier prompts; they raise the total unless it is set.

    Raises:
        BudgetExceeded: even an empty context leaves the response less than its reservation.
    """
    check_optional_int("system_tokens", sizes.system, 0, MAX_INT)
    check_optional_int("history_tokens", sizes.history, 0, MAX_INT)
    stage = config.stage if stage is None else stage
    system = config.system_tokens if sizes.system is None else sizes.system
    history = config.history_tokens if sizes.history is None else sizes.history
    total = config.total_for(stage) + (carried_tokens if config.total_tokens is None else 0)
    reserved = (
        max(config.system_tokens, system)
        + max(config.history_tokens, history)
        + config.response_tokens
        + carried_tokens
    )
    context = carried_tokens + max(0, min(config.context_share(stage), total - reserved))
    response = total - system - history - context
    if response < config.response_tokens:
        raise BudgetExceeded(config.response_tokens - response, config.response_tokens)
    return TokenAllocation(total, system, history, context, response)


OVER_BUDGET = "over_budget"
OVER_RECORD_LIMIT = "over_record_limit"


@dataclass(frozen=True, slots=True)
class Cut:
    """A ranking in two parts, each best first: `kept` and `dropped`, which is so for one reason.

    Only an adaptive budget may drop a record that ranks above a kept one.
    """

    kept: tuple[Scored, ...]
    dropped: tuple[Scored, ...]
    reason: str = ""

    def without_last(self) -> "Cut":
        """Move the last kept record to the dropped ones, because the rendered text exceeded the budget."""
        return Cut(self.kept[:-1], self.kept[-1:] + self.dropped, OVER_BUDGET)


def truncate(ranked: Sequence[Scored], budget_tokens: int, max_records: int | None) -> Cut:
    """Take records in order while the next one fits, and stop at the first that does not.

    A smaller one further down is never taken instead, so no dropped record outranks a kept one. Pinned
    records count like all others. `budget_tokens` is the room for records only.
    """
    used = 0
    for position, scored in enumerate(ranked):
        if position == max_records:
            return _cut_at(ranked, position, OVER_RECORD_LIMIT)
        used += scored.record.tokens
        if used > budget_tokens:
            return _cut_at(ranked, position, OVER_BUDGET)
    return Cut(tuple(ranked), ())


def _cut_at(ranked: Sequence[Scored], position: int, reason: str) -> Cut:
    return Cut(tuple(ranked[:position]), tuple(ranked[position:]), reason)
