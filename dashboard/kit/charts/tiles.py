"""A tile: a figure and its change since the period before."""

from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class SavingCard:
    """A saving and, beside it, its quality. `alarm` is a sentence about a quality that got worse."""

    slug: str
    label: str
    tiles: tuple[Tile, ...]
    alarm: str = ""
    links: tuple[tuple[str, str], ...] = ()


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
