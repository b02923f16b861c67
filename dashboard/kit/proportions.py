"""Shares of counted things, how sure they are, and whether two of them differ by more than chance.

Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).
"""

from dataclasses import dataclass
from math import sqrt

# The normal distribution's quantile for a confidence of 95 %.
Z = 1.96
# Fewer votes on either side say nothing about a difference.
COMPARABLE = 20


@dataclass(frozen=True, slots=True)
class Proportion:
    """`hits` of `count` things, both whole and 0 or more."""

    hits: int = 0
    count: int = 0

    @property
    def rate(self) -> float | None:
        """The share, 0 to 1; None if nothing was counted."""
        return self.hits / self.count if self.count else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the share, 0 to 1; all of it if nothing was counted."""
        if not self.count:
            return 0.0, 1.0
        n, p = self.count, self.hits / self.count
        middle = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
        half = Z / (1 + Z**2 / n) * sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
        return max(0.0, middle - half), min(1.0, middle + half)

    @property
    def margin(self) -> float:
        """Half the width of the interval, 0 to 0.5."""
        low, high = self.interval
        return (high - low) / 2

    @property
    def is_comparable(self) -> bool:
        return self.count >= COMPARABLE

    def rate_to_compare(self, other: "Proportion") -> float | None:
        """Return the share if both have enough votes for a comparison."""
        return self.rate if self.is_comparable and other.is_comparable else None

    def is_below(self, other: "Proportion") -> bool:
        """Tell whether this share is lower than the other by more than chance, at 95 % and with enough votes.

        Source: the two-sided z-test of two proportions with a pooled variance.
        """
        if not (self.is_comparable and other.is_comparable):
            return False
        pooled = (self.hits + other.hits) / (self.count + other.count)
        spread = sqrt(pooled * (1 - pooled) * (1 / self.count + 1 / other.count))
        return other.hits / other.count - self.hits / self.count > Z * spread

    def __add__(self, other: "Proportion") -> "Proportion":
        return Proportion(self.hits + other.hits, self.count + other.count)


NO_VOTES = Proportion()
