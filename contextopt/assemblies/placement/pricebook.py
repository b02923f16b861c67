"""The sources of prices that a team entered itself. Other apps register theirs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from contextopt.engine.placement.prices import CachePrices


@dataclass(frozen=True, slots=True)
class EnteredPrice:
    """A price that a team entered, from a day on. `cache` is None if it has no price of cached reads."""

    since: date
    dollars_per_million: float
    cache: CachePrices | None


type Source = Callable[[str], Sequence[EnteredPrice]]

_sources: list[Source] = []


def register_prices(source: Source) -> None:
    """Ask this source for the prices of a model, oldest first."""
    _sources.append(source)


def entered_prices(model: str) -> list[EnteredPrice]:
    """Return all prices that were entered for the model, oldest first."""
    return sorted((price for source in _sources for price in source(model)), key=lambda price: price.since)
