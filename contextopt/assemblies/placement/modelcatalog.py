"""Context windows of models and the prices of their input: a team's own, or those of `genai-prices`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from contextopt.engine.placement.choice import NO_DISCOUNT, CachePrices, Split
from contextopt.engine.validation import InvalidValue
from contextopt.telemetry import loading

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot

# A router that names models with their maker, such as `google/gemini-2.5-pro`, and knows most windows.
ROUTER = "openrouter"


@lru_cache(256)
def model_window(model: str) -> int:
    """Return the tokens that fit into the model's window, response included.

    Raises:
        InvalidValue: the model is unknown, or its window is.
    """
    snapshot = load_models()
    maker, window = _look_up(snapshot, model, None)
    for name in (model, f"{maker}/{model}"):
        window = window or _look_up(snapshot, name, ROUTER)[1]
    if window is None:
        raise InvalidValue("model", f"the context window of {model!r} is not known; give context_tokens")
    return window


def load_models() -> "DataSnapshot":
    """Return the package's data on models."""
    with loading():
        # It takes half a second to load and 30 MB, and few requests need it.
        from genai_prices import data_snapshot
    # The package's own snapshot would remember every name that anyone asks for.
    return data_snapshot.DataSnapshot(data_snapshot.get_snapshot().providers, from_auto_update=False)


def _look_up(snapshot: "DataSnapshot", model: str, provider: str | None) -> tuple[str, int | None]:
    """Return the provider of the model and the model's window, as far as they are known."""
    try:
        found, info = snapshot.find_provider_model(model, None, provider, None)
    except LookupError:
        return "", None
    return found.id, info.context_window


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


@dataclass(frozen=True, slots=True)
class ListPrice:
    """The package's prices of a model in dollars per million tokens; None for those that it lacks."""

    input: Decimal
    cached_read: Decimal | None
    cache_write: Decimal | None

    def to_shares(self) -> CachePrices:
        """Return the prices as shares of the input price. Writing to the cache costs at least that price."""
        if not self.input or self.cached_read is None:
            return NO_DISCOUNT
        write = self.input if self.cache_write is None else self.cache_write
        return CachePrices(float(self.cached_read / self.input), float(write / self.input))


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """A model's price in dollars per million input tokens, and the shares of it for cached tokens."""

    dollars_per_million: float
    cache: CachePrices

    def dollars(self, split: Split) -> float:
        """Return what a prompt costs after the provider's cache."""
        return self.cache.cost_of(split) * self.dollars_per_million / 1_000_000


@dataclass(frozen=True, slots=True)
class PriceBook:
    """Looks up prices. The entered prices of each model are read once."""

    _entered: dict[str, list[EnteredPrice]] = field(default_factory=dict)

    def price(self, model: str, day: date) -> TokenPrice | None:
        """Return what the model charged on that day; None if unknown."""
        if model not in self._entered:
            entered = (price for source in _sources for price in source(model))
            self._entered[model] = sorted(entered, key=lambda price: price.since)
        held = [price for price in self._entered[model] if price.since <= day]
        return resolve_price(model, held[-1] if held else None)


def resolve_price(model: str, entered: EnteredPrice | None) -> TokenPrice | None:
    """Return the entered price, or else the package's. Shares for cached tokens come from the package too if
    none were entered.
    """
    if entered is not None and entered.cache is not None:
        return TokenPrice(entered.dollars_per_million, entered.cache)
    listed = list_price(model) if model else None
    shares = NO_DISCOUNT if listed is None else listed.to_shares()
    if entered is not None:
        return TokenPrice(entered.dollars_per_million, shares)
    return None if listed is None else TokenPrice(float(listed.input), shares)


def cache_prices(model: str, day: date) -> CachePrices:
    """Return what the model charged for cached tokens on that day. An unknown model has no discount."""
    price = PriceBook().price(model, day)
    return NO_DISCOUNT if price is None else price.cache


@lru_cache(256)
def list_price(model: str) -> ListPrice | None:
    """Return the package's current prices of a model for short prompts; None if it has none."""
    try:
        _, info = load_models().find_provider_model(model, None, None, None)
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
