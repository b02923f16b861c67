"""Trims a context to a token budget: drops the least relevant items, and cuts the last kept one at a line."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from contextopt.engine.agents.contexts import AgentContext, ContextFile, Item, cut_item, item_body
from contextopt.engine.text.tokens import Counter

TRIM_ORDER = ("docs", "memories", "files", "tree_paths", "tree", "tools", "package_manifest")
"""The least important field first."""


class Trimmed(NamedTuple):
    """How one field was trimmed: items removed from its end, and lines cut off the last kept one.

    The tree and the manifest are one item each. `cut_lines` is 0 if no item was cut.
    """

    field: str
    dropped_items: int
    cut_lines: int

    def __str__(self) -> str:
        parts = []
        if self.dropped_items:
            parts.append(f"{self.dropped_items} left out")
        if self.cut_lines:
            parts.append(f"the last kept one cut by {self.cut_lines} lines")
        return f"{self.field}: {', '.join(parts)}"


def trim(
    context: AgentContext, budget_tokens: int, counter: Counter
) -> tuple[AgentContext, tuple[Trimmed, ...]]:
    """Empty one field after another until the rest fits, then restore as much of the last one as fits."""
    trimmed = []
    for name in TRIM_ORDER:
        items = items_of(context, name)
        if not items:
            continue
        without = with_items(context, name, ())
        if not counter.fits(without, budget_tokens):
            trimmed.append(Trimmed(name, len(items), 0))
            context = without
            continue
        context, cut = trim_field(context, name, budget_tokens, counter)
        trimmed.append(cut)
        break
    return context, tuple(trimmed)


def trim_field(
    context: AgentContext, name: str, budget_tokens: int, counter: Counter
) -> tuple[AgentContext, Trimmed]:
    """Keep the longest beginning of the field that fits."""
    items = items_of(context, name)
    # The share of the field's characters that fits. A poor estimate only costs time.
    rest = counter.count(with_items(context, name, ()))
    field_tokens = counter.count(context) - rest
    share = (budget_tokens - rest) / field_tokens if field_tokens > 0 else 0.0

    def fits(kept: Sequence[Any]) -> bool:
        return counter.fits(with_items(context, name, kept), budget_tokens)

    sizes = [len(_body(item)) for item in items]
    whole = longest(len(items), lambda count: fits(items[:count]), _guess(sizes, share * sum(sizes)))
    kept, first_out = list(items[:whole]), items[whole]
    lines = _body(first_out).splitlines(keepends=True) if name != "tree_paths" else []

    def shortened(count: int) -> list[Any]:
        part = _cut(first_out, "".join(lines[:count])) if count else None
        return kept if part is None else [*kept, part]

    room = share * sum(sizes) - sum(sizes[:whole])
    stays = longest(len(lines) - 1, lambda count: fits(shortened(count)), _guess(map(len, lines), room))
    final = shortened(stays)
    is_cut = len(final) > whole
    outcome = Trimmed(name, len(items) - len(final), len(lines) - stays if is_cut else 0)
    return with_items(context, name, final), outcome


def _guess(sizes: Iterable[int], room: float) -> int:
    used = 0
    for count, size in enumerate(sizes):
        used += size
        if used > room:
            return count
    return 0


def longest(total: int, fits: Callable[[int], bool], guess: int) -> int:
    """Return a count up to `total` that fits while the next one does not; 0 always fits.

    The search starts at the guess and moves outwards, so with a good guess it takes two or three steps.
    """
    if total <= 0:
        return 0
    low = high = min(max(guess, 0), total)
    step = 1
    if low == 0 or fits(low):
        while (high := min(low + step, total)) > low and fits(high):
            low, step = high, 2 * step
    else:
        while (low := max(high - step, 0)) > 0 and not fits(low):
            high, step = low, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def items_of(context: AgentContext, name: str) -> tuple[Any, ...]:
    """Return the field as a list of items. A text is one item, or none if empty."""
    value = getattr(context, name)
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(value)


def with_items(context: AgentContext, name: str, items: Sequence[Any]) -> AgentContext:
    is_text = isinstance(getattr(context, name), str)
    changes: dict[str, Any] = {name: "".join(items) if is_text else tuple(items)}
    return replace(context, **changes)


def _body(item: ContextFile | Item) -> str:
    return item.content if isinstance(item, ContextFile) else item_body(item)


def _cut(item: ContextFile | Item, body: str) -> ContextFile | Item | None:
    return ContextFile(item.path, body) if isinstance(item, ContextFile) else cut_item(item, body)
