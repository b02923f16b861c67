"""A tile: a figure or a share, its change since the period before, and whether that is more than chance."""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, lgamma, sqrt
from typing import Literal

from dashboard.kit.formats import NONE, compact, decimals, percent, percentage

type Wish = Literal["lower", "higher", "none"]


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a figure; `mood` is "good", "bad" or "" if neither direction is better.

    It is empty if there is nothing to compare with.
    """

    arrow: str = ""
    amount: str = ""
    mood: str = ""

    @property
    def words(self) -> str:
        return {"▲": "up", "▼": "down"}.get(self.arrow, "")


@dataclass(frozen=True, slots=True)
class Tile:
    slug: str
    label: str
    value: str
    unit: str
    change: Change
    fact: str
    target: str = ""
    link: str = ""
    # The figure got worse by more than chance. Its background is then amber, and a word says so.
    is_worse: bool = False
    # Another fact, on a line of its own.
    more: str = ""


def points(rate: float | None) -> str:
    return NONE if rate is None else percentage(rate * 100)


def in_points(rate: float) -> str:
    return f"{decimals(rate * 100, 1)} pt"


def unit(rate: float | None) -> str:
    return "" if rate is None else "%"


def describe_growth(now: int, before: int, wish: Wish) -> Change:
    """Return the change of a sum relative to the period before, or the difference if the sign changed."""
    if not before:
        return Change()
    if now * before < 0:
        return describe_change(now, before, wish, lambda d: " ".join(compact(d)).rstrip())
    return describe_change((now - before) / abs(before), 0.0, wish, percent)


def describe_change(
    now: float | None, before: float | None, wish: Wish, say: Callable[[float], str]
) -> Change:
    """Return the change of a figure, and whether it is for the better."""
    if now is None or before is None:
        return Change()
    amount = say(abs(now - before))
    if not any(character in "123456789" for character in amount):
        return Change("", "no change")
    is_up = now > before
    mood = "" if wish == "none" else "good" if is_up == (wish == "higher") else "bad"
    return Change("▲" if is_up else "▼", amount, mood)


# The normal distribution's quantile for a confidence of 95 %.
Z = 1.96
# Fewer votes on either side say nothing about a difference.
COMPARABLE = 20
# A page compares up to four shares with the period before: recall, votes, verdicts and empty contexts. With
# this level for each (Bonferroni), at most one unchanged page in twenty shows a fall.
CHANCE = 0.05 / 4


def hypergeometric_tail(hits: int, count: int, other_hits: int, other_count: int) -> float:
    """Return the probability of at most `hits` among `count` of all, if all hits are spread by chance.

    0 to 1. The share of hits must be below the other's, so that each term is smaller than the one before.
    """
    every, drawn = hits + other_hits, count + other_count
    term = exp(_log_choose(count, hits) + _log_choose(other_count, other_hits) - _log_choose(drawn, every))
    total = 0.0
    while term > total * 1e-12:
        total += term
        term *= hits * (other_count - every + hits) / ((every - hits + 1) * (count - hits + 1))
        hits -= 1
    return total


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


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
        """Wilson's 95 % interval of the share, 0 to 1; all of it if nothing was counted.

        Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22
        (1927).
        """
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
        """Tell whether this share is lower than the other by more than chance, with enough of both.

        Fisher's exact test, one-sided, at `CHANCE`: given both counts and all hits, the probability that so
        few of the hits or fewer fall on this side (hypergeometric). It also holds for rare hits and misses.

        Source: R. A. Fisher, "The logic of inductive inference", Journal of the Royal Statistical Society 98
        (1935).
        """
        if not (self.is_comparable and other.is_comparable):
            return False
        if self.hits * other.count >= other.hits * self.count:
            return False
        return hypergeometric_tail(self.hits, self.count, other.hits, other.count) < CHANCE

    def __add__(self, other: "Proportion") -> "Proportion":
        return Proportion(self.hits + other.hits, self.count + other.count)


NO_VOTES = Proportion()
