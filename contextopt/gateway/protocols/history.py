"""Cuts the oldest turns out of a prompt, never a tool's result without its call or a call without its result.

A turn is a user's text with everything up to the next one. The results that stand before a text in the same
message belong to the turn before it, whose calls they answer.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate

from contextopt.gateway.protocols.jsonspans import Span
from contextopt.gateway.protocols.prompts import Prompt


def cut_history(prompt: Prompt, limit: int, count: Callable[[str], int], held: int = 0) -> int:
    """Return the turn that the history begins with if it may have at most `limit` tokens. 0 cuts nothing.

    The system prompt and the last turn always stay. An earlier cut, at turn `held`, stays until its rest is
    over the limit. Then the history is cut to half of the limit, since each cut makes the rest of the prompt
    new for the provider's cache.
    """
    left = _left_by_turn(prompt, count)
    latest = latest_cut(prompt)
    held = min(held, latest)
    if left[0] <= limit:
        return 0
    if left[held] <= limit:
        return held
    return next((turn for turn in range(held + 1, latest) if left[turn] <= limit / 2), latest)


def latest_cut(prompt: Prompt) -> int:
    """Return the latest turn that the history can begin with.

    The calls whose results the last turn brings have to stay, and results without a call, which the provider
    may have stored.
    """
    last = prompt.turns[-1].item
    needed = [one.call for one in prompt.answered if one.item >= last and one.call is not None]
    stored = [one.item for one in prompt.answered if one.call is None]
    first = min([last, *needed, *stored])
    return max((number for number, turn in enumerate(prompt.turns) if turn.item <= first), default=0)


def spoken_tokens(prompt: Prompt, turn: int, count: Callable[[str], int]) -> int:
    """Return the tokens of everything said from a turn on, the last turn included."""
    return sum(_sizes(prompt, count)[_border(prompt, turn) :])


def dropped_items(prompt: Prompt, turn: int) -> frozenset[int]:
    """Return the items that are left out if the history begins with this turn."""
    border, parts = _border(prompt, turn), _dropped_parts(prompt, turn)
    before = {at for at in range(border) if not prompt.items[at].is_system}
    return frozenset(
        before | {at for at, dropped in parts.items() if len(dropped) == len(_parts(prompt, at))}
    )


def cut_spans(prompt: Prompt, turn: int) -> list[Span]:
    """Return the bytes of what is left out if the history begins with this turn, commas included."""
    dropped = dropped_items(prompt, turn)
    spans = _gaps([item.span for item in prompt.items], dropped)
    for at, parts in _dropped_parts(prompt, turn).items():
        spans += [] if at in dropped else _gaps(prompt.items[at].parts, parts)
    return spans


def _border(prompt: Prompt, turn: int) -> int:
    """Return the first item of the history. Anything before the first user text belongs to the first turn."""
    return prompt.turns[turn].item if turn else 0


def _left_by_turn(prompt: Prompt, count: Callable[[str], int]) -> list[int]:
    """Return the tokens of the history if it begins with the first turn, with the second, and so on."""
    sizes = _sizes(prompt, count)[: prompt.turns[-1].item]
    left = [*accumulate(reversed(sizes), initial=0)][::-1]
    return [left[_border(prompt, turn)] for turn in range(len(prompt.turns))]


def _sizes(prompt: Prompt, count: Callable[[str], int]) -> list[int]:
    """Return the tokens by item, without instructions. A tool's result counts where its call is, with which
    it is left out.
    """
    sizes = [0 if item.is_system else count(item.text) for item in prompt.items]
    for result, item, call in prompt.answered:
        if call is not None and not prompt.items[item].is_system:
            tokens = min(sizes[item], count(result.text))
            sizes[item] -= tokens
            sizes[call] += tokens
    return sizes


def _dropped_parts(prompt: Prompt, turn: int) -> dict[int, set[int]]:
    """Return the parts of kept items that are left out by item: the results of calls that are."""
    border = _border(prompt, turn)
    found: dict[int, set[int]] = {}
    for result, item, call in prompt.answered:
        if call is not None and call < border <= item and not prompt.items[call].is_system:
            found.setdefault(item, set()).add(result.part or 0)
    return found


def _parts(prompt: Prompt, item: int) -> Sequence[Span]:
    """Return the parts of an item that has results. A result that is no part of a message is the only one."""
    return prompt.items[item].parts or (prompt.items[item].span,)


def _gaps(places: Sequence[Span], dropped: Collection[int]) -> list[Span]:
    """Return the bytes to remove from a list so that the values at these numbers are gone, and nothing else.

    Each takes along the comma after it, and those at the end the comma before them. One value stays at least.
    """
    last = max((at for at in range(len(places)) if at not in dropped), default=-1)
    spans = [Span(places[at].start, places[at + 1].start) for at in sorted(dropped) if at < last]
    return [*spans, Span(places[last].end, places[-1].end)] if 0 <= last < len(places) - 1 else spans
