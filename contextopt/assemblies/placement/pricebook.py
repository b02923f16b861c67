"""The sources of prices that a team entered itself. Other apps register theirs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from contextopt.engine.placement.prices import CachePrices


@dataclass(frozen=True, slots=True)
class EnteredPrice:
    """What a team entered for a model. `cache` is None if it has no price of cached reads."""

    dollars_per_million: float
    cache: CachePrices | None


type Source = Callable[[str, date], EnteredPrice | None]

_sources: list[Source] = []


def register_prices(source: Source) -> None:
    """Ask this source for a model's prices of a day."""
    _sources.append(source)


def entered_price(model: str, day: date) -> EnteredPrice | None:
    """Return the price of the first source that has one."""
    return next((price for source in _sources if (price := source(model, day)) is not None), None)
