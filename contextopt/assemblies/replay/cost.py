"""The cost of a logged prompt and of its replay after the provider's cache."""

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from contextopt.assemblies.models import Assembly
from contextopt.assemblies.placement.conversations import PromptSizes, logged_prompt
from contextopt.assemblies.placement.prices import PriceBook
from contextopt.assemblies.replay.inputs import ReplayIn
from contextopt.assemblies.replay.replay import Replay, replay_assembly
from contextopt.engine.placement.choice import SYSTEM
from contextopt.engine.placement.prices import Split
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.errors import PRODUCT_ERRORS


@dataclass(frozen=True, slots=True)
class PromptCost:
    """The cost of a prompt; `dollars` are None if the model has no price."""

    split: Split
    dollars: float | None


def cost_of(assembly: Assembly, split: Split | None, book: PriceBook) -> PromptCost | None:
    """Return the cost of the assembly's prompt for this split, at the prices of its day."""
    if split is None:
        return None
    day = assembly.created_at.astimezone(ZoneInfo(assembly.team.time_zone)).date()
    price = book.price(assembly.model, day)
    return PromptCost(split, price.dollars(split) if price else None)


def logged_split(assembly: Assembly) -> Split | None:
    """Return the logged split of the prompt by the cache; None outside of a conversation."""
    tokens, cached, cacheable = assembly.prompt_tokens, assembly.cached_tokens, assembly.cacheable_tokens
    if tokens is None or cached is None or cacheable is None:
        return None
    return Split(cached, cacheable, tokens - cached - cacheable)


def replayed_sizes(again: Replay, data: ReplayIn | None) -> PromptSizes | None:
    """Return the sizes of the prompt with the replayed context, as if the last prompt had been replayed too.

    None outside of a conversation, or if the last prompt matters and cannot be replayed.
    """
    payload = again.assembly.payload
    tokenizer = get_tokenizer(again.assembly.encoding)
    logged = logged_prompt(payload, tokenizer) if again.result is not None else None
    if logged is None or again.result is None:
        return None
    # A context in front of the conversation shares only its common beginning with the last one.
    if again.is_changed and logged.placement == SYSTEM and logged.last_id is not None:
        last = _replayed_text(logged.last_id, data)
        if last is None:
            return None
        logged = logged.after(last)
    return logged.measure(again.result.text, again.result.certificate.tokens, tokenizer)


def _replayed_text(assembly_id: int, data: ReplayIn | None) -> str | None:
    rows = Assembly.objects.for_replay()
    try:
        last = replay_assembly(rows.get(pk=assembly_id), data)
    except PRODUCT_ERRORS:
        return None
    return last.result.text if last.result else None
