"""Prices that teams entered themselves. Other apps register the sources of such prices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from contextopt.engine.placement.prices import CachePrices


@dataclass(frozen=True, slots=True)
class EnteredPrice:
    """A price that a team entered, valid from a day on. `cache` is None without a price of cached reads."""

    since: date
    dollars_per_million: float
    cache: CachePrices | None


type Source = Callable[[str], Sequence[EnteredPrice]]

_sources: list[Source] = []


def register_prices(source: Source) -> None:
    """Register a source that returns the prices of a model, oldest first."""
    _sources.append(source)


def entered_prices(model: str) -> list[EnteredPrice]:
    """Return all prices that were entered for the model, oldest first."""
    return sorted((price for source in _sources for price in source(model)), key=lambda price: price.since)
