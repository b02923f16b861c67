"""Divide the total between system, history, context and response."""

from contextopt.engine.prompts.config import ContextConfig
from contextopt.engine.prompts.values import WHOLE_SHARES, PartSizes, TokenAllocation
from contextopt.engine.text.errors import BudgetExceeded
from contextopt.engine.text.validation import MAX_INT, check_optional_int


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
