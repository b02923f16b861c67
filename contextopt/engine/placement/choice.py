"""Where the context of a conversation's next prompt goes, and which earlier blocks stay.

::

    system  [system][context] [question][answer] [question]
    tail    [system] [question][answer] [context][question]
    append  [system] [block][question][answer] [block][question]

A provider charges little for a prefix that it has cached. A context in the system prompt changes with every
question, so everything after it is charged anew. At the tail, only the context and the last turn are new.
Appended blocks stay where they are: reading them again costs little, and a new block holds only what is
missing. `auto` takes what costs least: it keeps all earlier blocks, or only the first of them, or none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Literal

from contextopt.engine.placement.blocks import NOTHING, Block, Sight
from contextopt.engine.validation import BudgetExceeded, InvalidValue
from contextopt.engine.values import Assembled

MINIMUM_TOKENS = 1_024
"""The shortest prefix that most providers cache."""
LIFETIME_SECONDS = 300.0
"""How long most providers keep a prefix that is not used."""


@dataclass(frozen=True, slots=True)
class CachePrices:
    """Prices of cached tokens, as shares of the price of an input token.

    `read` is for tokens found in the cache, `write` for those that enter it. Prompts shorter than
    `minimum_tokens` are not cached. The cache expires after `lifetime_seconds` without a prompt.
    """

    read: float = 1.0
    write: float = 1.0
    minimum_tokens: int = MINIMUM_TOKENS
    lifetime_seconds: float = LIFETIME_SECONDS

    def __post_init__(self) -> None:
        for name in ("read", "write", "minimum_tokens", "lifetime_seconds"):
            if not 0 <= getattr(self, name) < inf:
                raise InvalidValue(name, "must be a number that is not negative")

    def split(self, tokens: int, shared_tokens: int, *, idle_seconds: float = 0.0) -> "Split":
        """Divide a prompt by what the cache does with it.

        Its first `shared_tokens` were in the conversation's last prompt, `idle_seconds` ago.
        """
        shared = min(tokens, shared_tokens)
        is_found = shared >= self.minimum_tokens and idle_seconds <= self.lifetime_seconds
        cached = shared if is_found else 0
        left = tokens - cached
        return Split(cached, left, 0) if tokens >= self.minimum_tokens else Split(cached, 0, left)

    def cost_of(self, split: "Split") -> float:
        """Return the cost of a prompt in input tokens at full price."""
        return split.cached * self.read + split.cacheable * self.write + split.rest


NO_DISCOUNT = CachePrices()
"""A repeated prefix costs as much as other input."""


@dataclass(frozen=True, slots=True)
class Split:
    """A prompt's input tokens: found in the cache, entering it, and not cached at all."""

    cached: int
    cacheable: int
    rest: int

    @classmethod
    def of(cls, tokens: int | None, cached: int | None, cacheable: int | None) -> "Split | None":
        """Return the split of a prompt of that many tokens; None if any number is unknown."""
        if tokens is None or cached is None or cacheable is None:
            return None
        return cls(cached, cacheable, tokens - cached - cacheable)

    @property
    def tokens(self) -> int:
        return self.cached + self.cacheable + self.rest


NO_TOKENS = Split(0, 0, 0)


@dataclass(frozen=True, slots=True)
class PromptSizes:
    """The sizes of a prompt in a conversation. All but the first are None if a text of it was purged."""

    prompt_tokens: int
    shared_prefix_tokens: int | None = None
    split: Split | None = None

    def figures(self) -> dict[str, int | None]:
        """Return the sizes by the names of their figures."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "shared_prefix_tokens": self.shared_prefix_tokens,
            "cached_tokens": self.split.cached if self.split else None,
            "cacheable_tokens": self.split.cacheable if self.split else None,
        }


type Placement = Literal["system", "tail", "append"]

SYSTEM: Placement = "system"
TAIL: Placement = "tail"
APPEND: Placement = "append"
AUTO: Literal["auto"] = "auto"
PLACEMENTS = (SYSTEM, TAIL, APPEND, AUTO)
CARRIED_TIMES = 4
"""By default, the blocks in sight take at most this many times the budget of a new block."""
KEPT_SHARES = (0.5,)
"""If all blocks would exceed the bound, keep those within this share of it."""
AUTO_SHARES = (0.75, 0.5)
"""The shares of the bound that `auto` compares, besides keeping all blocks and none."""
READS_AHEAD = 1.5
"""The number of further prompts that `auto` expects to read the blocks. On dialogues, 1 costs more over 15
turns, and 2 over 5 turns.
"""


@dataclass(frozen=True, slots=True)
class LastPrompt:
    """The conversation's last prompt: its placement and context, and the sizes of its other parts."""

    placement: Placement
    text: str
    system_tokens: int
    history_tokens: int
    question_tokens: int
    block_id: int
    idle_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation before its next prompt. Sizes are in tokens, `history_tokens` without blocks.

    `blocks` are those that the caller still holds, in their order in the prompt. `last` is None before the
    first prompt. The texts of those `in_history` are a part of the history and stay whatever is chosen.
    """

    system_tokens: int = 0
    history_tokens: int = 0
    question_tokens: int = 0
    blocks: tuple[Block, ...] = ()
    last: LastPrompt | None = None
    in_history: tuple[Block, ...] = ()

    def prompt_tokens(self, kept: int, new_tokens: int) -> int:
        carried = sum(block.tokens for block in self.blocks[:kept])
        return self.system_tokens + self.history_tokens + carried + new_tokens + self.question_tokens

    def shared_tokens(self, placement: Placement, kept: int, text_prefix: "TextPrefix") -> int:
        """Return the tokens of the prefix that the next prompt shares with the last one.

        Only sizes are known. A system prompt of the same size counts as unchanged, and history that has not
        shrunk as extended. If it shrank, it was cut at its beginning.
        """
        last = self.last
        if last is None or last.system_tokens != self.system_tokens:
            return 0
        if self.history_tokens < last.history_tokens and SYSTEM not in {placement, last.placement}:
            return self.system_tokens
        if SYSTEM in {placement, last.placement}:
            if placement != last.placement:
                return self.system_tokens
            context, is_whole = text_prefix(last.text)
            history = last.history_tokens + last.question_tokens
            return self.system_tokens + context + (self._grown(history) if is_whole else 0)
        carried = sum(block.tokens for block in self.blocks[:kept])
        if kept < len(self.blocks):
            return self.system_tokens + carried + self._grown(self.blocks[kept].after_tokens)
        # The last context is a block that is still there, or it was at the tail and is gone.
        is_held = any(block.id == last.block_id for block in self.blocks)
        history = last.history_tokens + (last.question_tokens if is_held else 0)
        return self.system_tokens + carried + self._grown(history)

    @property
    def idle_seconds(self) -> float:
        return self.last.idle_seconds if self.last else 0.0

    def _grown(self, tokens: int) -> int:
        return tokens if tokens <= self.history_tokens else 0


NEW = Conversation()
"""A conversation about which nothing is known."""

type TextPrefix = Callable[[str], tuple[int, bool]]
"""Returns the tokens of the new context's common prefix with an earlier one, and whether they are equal."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A context with its place in a conversation.

    `split` divides the prompt by what the provider's cache does with it. `cost` is the prompt's cost at these
    prices, in input tokens at full price.
    """

    placement: Placement
    outcome: Assembled
    sight: Sight = NOTHING
    kept: tuple[Block, ...] = ()
    is_rewritten: bool = False
    shared_tokens: int = 0
    split: Split = NO_TOKENS
    prices: CachePrices = NO_DISCOUNT
    conversation: Conversation = NEW
    cost: float = 0.0
    carries_on: bool = False
    """Whether the caller should hold the new block, so that the next prompt can leave out what it shows."""

    @property
    def prompt_sizes(self) -> PromptSizes:
        return PromptSizes(self.split.tokens, self.shared_tokens, self.split)


@dataclass(frozen=True, slots=True)
class Place:
    """The request: the placement, the prices, and the bound on what stays in sight.

    `prefix` returns the tokens of the prefix that two contexts share, and whether they are equal.
    """

    placement: str
    prices: CachePrices
    bound_tokens: int
    prefix: Callable[[str, str], tuple[int, bool]] = lambda _before, _after: (0, False)


def place_context(request: Place, conversation: Conversation, decide: Callable[[Sight], Assembled]) -> Placed:
    """Try the choices of earlier blocks. Return the first that fits, or for `auto` the cheapest.

    `decide` builds the context for what is in sight.

    Raises:
        BudgetExceeded: even without earlier blocks, the response gets less than its reservation.
    """
    best: tuple[float, Placed] | None = None
    for kept in _numbers_kept(request, conversation.blocks):
        placed = _try(request, conversation, decide, kept)
        if placed is None:
            continue
        if request.placement != AUTO:
            return placed
        ahead = (
            READS_AHEAD
            * request.prices.read
            * (placed.sight.tokens + placed.outcome.certificate.tokens_at_most)
        )
        if best is None or placed.cost + ahead < best[0]:
            best = placed.cost + ahead, placed
    assert best is not None
    return best[1]


def _numbers_kept(request: Place, blocks: Sequence[Block]) -> list[int]:
    """Return how many of the first blocks may stay: all, those within a share of the bound, or none."""
    if request.placement in {SYSTEM, TAIL}:
        return [0]
    sizes = list(accumulate(block.tokens for block in blocks))
    shares = AUTO_SHARES if request.placement == AUTO else KEPT_SHARES
    within = [sum(size <= share * request.bound_tokens for size in sizes) for share in shares]
    return list(dict.fromkeys([len(blocks), *within, 0]))


def _try(
    request: Place, conversation: Conversation, decide: Callable[[Sight], Assembled], kept: int
) -> Placed | None:
    """Decide with the first blocks in sight. Return None if they leave no room or exceed the bound."""
    blocks = conversation.blocks[:kept]
    sight = Sight.of(blocks, conversation.in_history)
    try:
        outcome = decide(sight)
    except BudgetExceeded:
        if not blocks:
            raise
        return None
    new_tokens = outcome.certificate.tokens_at_most
    if blocks and sight.tokens + new_tokens > request.bound_tokens:
        return None
    placement = _placement(request, conversation, kept)
    tokens = conversation.prompt_tokens(kept, new_tokens)
    shared = conversation.shared_tokens(placement, kept, lambda before: request.prefix(before, outcome.text))
    split = request.prices.split(tokens, shared, idle_seconds=conversation.idle_seconds)
    return Placed(
        placement=placement,
        outcome=outcome,
        sight=sight,
        kept=blocks,
        is_rewritten=kept < len(conversation.blocks),
        shared_tokens=min(shared, tokens),
        split=split,
        prices=request.prices,
        conversation=conversation,
        cost=request.prices.cost_of(split),
        carries_on=request.placement in {APPEND, AUTO},
    )


def _placement(request: Place, conversation: Conversation, kept: int) -> Placement:
    if request.placement == SYSTEM:
        return SYSTEM
    if request.placement == TAIL:
        return TAIL
    if request.placement == AUTO and not kept and (conversation.blocks or request.prices.read >= 1):
        return TAIL
    return APPEND
