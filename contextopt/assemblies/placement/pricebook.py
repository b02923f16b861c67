"""The sources of prices that a team entered itself. Other apps register theirs."""

from collections.abc import Callable
from datetime import datetime

from contextopt.engine.placement.prices import CachePrices

type Source = Callable[[str, datetime], CachePrices | None]

_sources: list[Source] = []


def register_prices(source: Source) -> None:
    """Ask this source for a model's prices at a moment."""
    _sources.append(source)


def entered_prices(model: str, moment: datetime) -> CachePrices | None:
    """Return the prices of the first source that has some."""
    return next((prices for source in _sources if (prices := source(model, moment)) is not None), None)
