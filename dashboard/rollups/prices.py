"""The price of the day: what each model charged when, and as SQL what prompts cost after the cache.

Rollups store tokens alone, so a price that is entered or corrected later counts at once, from its first day
on. A day is one of the team's time zone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from itertools import groupby, pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from contextopt.assemblies.models import SPLIT
from contextopt.assemblies.placement.modelcatalog import EnteredPrice, TokenPrice, resolve_price
from contextopt.sql import fetch_rows
from dashboard.rollups.coverage import FigureFilter
from dashboard.rollups.models import ModelPrice

# Further models get no price, as if it were unknown. The most used models come first.
MODELS_PRICED = 200
_ALWAYS, _NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

PRICE_JOIN = """
          LEFT JOIN unnest(%(price_models)s::text[], %(price_since)s::timestamptz[],
                           %(price_until)s::timestamptz[], %(price_input)s::float8[],
                           %(price_read)s::float8[], %(price_write)s::float8[])
                 AS price (model, since, until, input, read, write)
            ON price.model = rollups.model
           AND rollups.start >= price.since AND rollups.start < price.until
"""
"""Joins `rollups` with the prices of their models that held on their day, in dollars a token."""
_TOKENS, _CACHED, _CACHEABLE = SPLIT
_REST = f"({_TOKENS} - {_CACHED} - {_CACHEABLE})"
DOLLARS = f"({_CACHED} * price.read + {_CACHEABLE} * price.write + {_REST} * price.input)"
"""The cost of the prompts in a row."""
DOLLARS_ANEW = f"(({_CACHED} + {_CACHEABLE}) * price.write + {_REST} * price.input)"
"""The cost of the same prompts if each had begun with something new."""
SAVED_DOLLARS = """(saved_cached * price.read + saved_cacheable * price.write
                    + (saved_in_prompts - saved_cached - saved_cacheable) * price.input)"""
"""The worth of the saving in prompts, at the mean cost of a token of each prompt."""
SAVED_DOLLARS_LISTED = "saved_in_prompts * price.input"
"""The same saving without the provider's cache."""

# The index of day summaries alone answers. Models of the last seconds are not in them yet, unless they have a
# price of their own.
_MODELS = """
    SELECT model, price.effective_from, price.dollars_per_million, price.cached_read_dollars,
           price.cache_write_dollars
      FROM (SELECT model, count(*) AS days FROM dashboard_daysummary
             WHERE team_id = %(team)s AND start > %(since)s - interval '1 day' AND start < %(until)s
             GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT %(limit)s) AS used
      FULL JOIN dashboard_modelprice price USING (model)
     ORDER BY 1, 2
"""


class _Entered(NamedTuple):
    """A model in use, with one of the prices that were entered for it, if there are any."""

    model: str
    effective_from: date | None
    dollars_per_million: Any
    cached_read_dollars: Any
    cache_write_dollars: Any

    def to_entered(self) -> EnteredPrice | None:
        if self.effective_from is None:
            return None
        return ModelPrice(
            effective_from=self.effective_from,
            dollars_per_million=self.dollars_per_million,
            cached_read_dollars=self.cached_read_dollars,
            cache_write_dollars=self.cache_write_dollars,
        ).to_entered()


@dataclass(frozen=True, slots=True)
class PriceSpan:
    """The price of a model from one moment to another, which is not included."""

    model: str
    since: datetime
    until: datetime
    price: TokenPrice


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of the models that a team uses."""

    spans: tuple[PriceSpan, ...] = ()

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of `PRICE_JOIN`."""
        spans = self.spans
        full = [span.price.dollars_per_million / 1_000_000 for span in spans]
        return {
            "price_models": [span.model for span in spans],
            "price_since": [span.since for span in spans],
            "price_until": [span.until for span in spans],
            "price_input": full,
            "price_read": [a * span.price.cache.read for a, span in zip(full, spans, strict=True)],
            "price_write": [a * span.price.cache.write for a, span in zip(full, spans, strict=True)],
        }


def read_prices(wanted: FigureFilter) -> PriceList:
    """Return the prices for the period and the one before, in one query."""
    since, zone = wanted.before().period.start, wanted.period.zone
    values = {"team": wanted.team_id, "since": since, "until": wanted.period.until, "limit": MODELS_PRICED}
    rows = fetch_rows(_Entered, _MODELS, values)
    by_model = groupby(rows, key=lambda row: row.model)
    entered = ((model, filter(None, (row.to_entered() for row in group))) for model, group in by_model)
    spans = (price_spans(model, prices, zone) for model, prices in entered)
    return PriceList(tuple(span for each in spans for span in each if span.until > since))


def price_spans(model: str, entered: Iterable[EnteredPrice], zone: ZoneInfo) -> Iterator[PriceSpan]:
    """Yield the package's price up to the first one that was entered, then each of these, oldest first."""
    prices = [*entered]
    edges = [_ALWAYS, *(datetime.combine(price.since, time(), zone) for price in prices), _NEVER]
    for (since, until), own in zip(pairwise(edges), (None, *prices), strict=True):
        price = resolve_price(model, own)
        if price is not None:
            yield PriceSpan(model, since, until, price)
