"""Prices of cached tokens: a team's own prices, or else those of the package `genai-prices`."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from contextopt.assemblies.placement.pricebook import entered_prices
from contextopt.engine.placement.prices import LIFETIME_SECONDS, MINIMUM_TOKENS, CachePrices
from contextopt.workclock import loading

UNKNOWN = CachePrices()
"""Without prices, a repeated beginning is assumed to cost as much as any other."""


@dataclass(frozen=True, slots=True)
class ListPrice:
    """A model's prices in dollars per million tokens, as the package has them; None if it has none."""

    input: Decimal
    cached_read: Decimal | None
    cache_write: Decimal | None

    def to_shares(self) -> CachePrices:
        """Return the prices as shares of the input price. What enters the cache costs at least as much."""
        if not self.input or self.cached_read is None:
            return UNKNOWN
        write = self.input if self.cache_write is None else self.cache_write
        return CachePrices(
            float(self.cached_read / self.input), float(write / self.input), MINIMUM_TOKENS, LIFETIME_SECONDS
        )


def cache_prices(model: str, moment: datetime) -> CachePrices:
    """Return what the model charged at the moment. An unknown model has no discount."""
    if (prices := entered_prices(model, moment)) is not None:
        return prices
    listed = list_price(model) if model else None
    return UNKNOWN if listed is None else listed.to_shares()


@lru_cache(256)
def list_price(model: str) -> ListPrice | None:
    """Return the package's present prices of a model for short prompts; None if it does not know it."""
    with loading():
        # It takes half a second to load and 30 MB, and few requests need it.
        from genai_prices import data_snapshot
    # The package's own snapshot would remember every name that anyone asks for.
    snapshot = data_snapshot.DataSnapshot(data_snapshot.get_snapshot().providers, from_auto_update=False)
    try:
        _, info = snapshot.find_provider_model(model, None, None, None)
    except LookupError:
        return None
    prices: Any = info.prices[-1].prices if isinstance(info.prices, list) else info.prices
    first = _base(prices.input_mtok)
    if first is None:
        return None
    return ListPrice(first, _base(prices.cache_read_mtok), _base(prices.cache_write_mtok))


def _base(price: Any) -> Decimal | None:
    """Return the price of the first tier, if there are several."""
    return None if price is None else Decimal(getattr(price, "base", price))
