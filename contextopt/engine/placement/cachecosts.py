"""The cost of a prompt's input with the provider's cache of prefixes."""

from dataclasses import dataclass
from math import inf

from contextopt.engine.validation import InvalidValue

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

    @property
    def tokens(self) -> int:
        return self.cached + self.cacheable + self.rest


NO_TOKENS = Split(0, 0, 0)
