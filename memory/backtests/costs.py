"""The cost of a backtest's prompts after the provider's cache, at the prices of their days."""

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from django.db.models import Count, F, Q, Sum
from django.db.models.functions import TruncDate

from contextopt.assemblies.placement.prices import PriceBook
from contextopt.assemblies.replay.cost import cost_of, logged_split
from contextopt.engine.placement.prices import Split
from memory.backtests.models import Backtest, BacktestRow


@dataclass(frozen=True, slots=True)
class BacktestCosts:
    """Dollars as logged and under the version, over the contexts whose conversation and price are known.

    `prompts` counts the contexts whose conversation is known, `priced` those of them that have a price.
    """

    prompts: int = 0
    priced: int = 0
    before: float = 0.0
    after: float = 0.0

    def to_json(self) -> dict[str, float | None]:
        """Return what commands and the API show: no money without a price."""
        known = self.priced > 0
        return {
            "priced": self.priced,
            "dollars_before": self.before if known else None,
            "dollars_after": self.after if known else None,
        }

    @property
    def share(self) -> float | None:
        """The change as a share of the cost before, negative if it is less."""
        return self.after / self.before - 1 if self.before else None


_KNOWN = Q(prompt_after__isnull=False, assembly__cacheable_tokens__isnull=False)
_SUMS = {
    "prompts": Count("pk"),
    "prompt_was": Sum("assembly__prompt_tokens"),
    "cached_was": Sum("assembly__cached_tokens"),
    "cacheable_was": Sum("assembly__cacheable_tokens"),
    "prompt_is": Sum("prompt_after"),
    "cached_is": Sum("cached_after"),
    "cacheable_is": Sum("cacheable_after"),
}


def costs_of(backtest: Backtest) -> BacktestCosts:
    return read_costs([backtest]).get(backtest.pk, BacktestCosts())


def read_costs(backtests: Sequence[Backtest]) -> dict[int, BacktestCosts]:
    """Return the costs of each of a team's backtests by its id: one query, and one for each model.

    A backtest without a known conversation is left out.
    """
    costs: dict[int, BacktestCosts] = {}
    if not backtests:
        return costs
    zone = ZoneInfo(backtests[0].space.team.time_zone)
    rows = BacktestRow.objects.filter(_KNOWN, backtest__in=backtests).order_by()
    grouped = rows.values(
        "backtest_id", model=F("assembly__model"), day=TruncDate("assembly__created_at", tzinfo=zone)
    )
    book, names = PriceBook(), ("backtest_id", "model", "day", *_SUMS)
    for backtest_id, model, day, prompts, *sums in grouped.annotate(**_SUMS).values_list(*names):
        price, so_far = book.price(model, day), costs.get(backtest_id, BacktestCosts())
        if price is None:
            costs[backtest_id] = _add(so_far, prompts, 0, 0.0, 0.0)
        else:
            before, after = price.dollars(_split(*sums[:3])), price.dollars(_split(*sums[3:]))
            costs[backtest_id] = _add(so_far, prompts, prompts, before, after)
    return costs


def _add(costs: BacktestCosts, prompts: int, priced: int, before: float, after: float) -> BacktestCosts:
    return BacktestCosts(
        costs.prompts + prompts, costs.priced + priced, costs.before + before, costs.after + after
    )


def _split(tokens: int, cached: int, cacheable: int) -> Split:
    return Split(cached, cacheable, tokens - cached - cacheable)


def row_dollars(row: BacktestRow, book: PriceBook) -> tuple[float | None, float | None]:
    """Return what a row's prompt cost as logged, and what it would cost; None if unknown.

    Load the row with its assembly and team.
    """
    logged, again = logged_split(row.assembly), row.split_after
    if logged is None or again is None:
        return None, None
    before, after = (cost_of(row.assembly, split, book) for split in (logged, again))
    return before.dollars if before else None, after.dollars if after else None
