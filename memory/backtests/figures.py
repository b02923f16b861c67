"""The figures of a backtest, summed over its rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Aggregate, Count, F, FloatField, Q, Sum
from django.db.models.functions import Coalesce, TruncDate

from contextopt.assemblies.models import SPLIT
from contextopt.assemblies.placement.modelcatalog import PriceBook
from contextopt.assemblies.replay.replay import cost_of
from contextopt.engine.placement.choice import Split
from memory.backtests.models import Backtest, BacktestRow

# The sums that commands and the API show.
FIGURES = (
    "assemblies", "tokens_before", "tokens_after", "more_tokens", "empty_before", "empty_after",
    "newly_empty", "evidence", "evidence_before", "evidence_kept",
)  # fmt: skip
REPLAYED = Q(tokens_after__isnull=False)


@dataclass(frozen=True, slots=True)
class BacktestFigures:
    """Sums over the contexts computed so far. All but the first three are over those that could be.

    `evidence` counts the records known to matter; `evidence_before` and `evidence_kept` those of them that
    the logged and the new contexts hold.
    """

    assemblies: int = 0
    done: int = 0
    not_replayable: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    more_tokens: int = 0
    empty_before: int = 0
    empty_after: int = 0
    newly_empty: int = 0
    evidence: int = 0
    evidence_before: int = 0
    evidence_kept: int = 0
    lost: int = 0
    gained: int = 0
    # Tokens per context.
    median_before: float | None = None
    median_after: float | None = None

    @property
    def replayed(self) -> int:
        return self.done - self.not_replayable

    @property
    def mean_before(self) -> float | None:
        return self.tokens_before / self.replayed if self.replayed else None

    @property
    def mean_after(self) -> float | None:
        return self.tokens_after / self.replayed if self.replayed else None

    @property
    def share(self) -> float | None:
        """The change in tokens as a share of those before, negative if fewer."""
        return self.tokens_after / self.tokens_before - 1 if self.tokens_before else None


class _Median(Aggregate):
    function = "percentile_cont"
    template = "%(function)s(0.5) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()


def _sum(name: str) -> Coalesce:
    return Coalesce(Sum(name, filter=REPLAYED), 0)


_COUNTED: Mapping[str, Any] = {
    "assemblies": Count("pk"),
    "done": Count("pk", filter=Q(is_done=True)),
    "not_replayable": Count("pk", filter=~Q(reason="")),
    "sum_before": _sum("tokens_before"),
    "sum_after": _sum("tokens_after"),
    "more_tokens": Count("pk", filter=Q(tokens_after__gt=F("tokens_before"))),
    "were_empty": Count("pk", filter=REPLAYED & Q(empty_before=True)),
    "are_empty": Count("pk", filter=REPLAYED & Q(empty_after=True)),
    "newly_empty": Count("pk", filter=REPLAYED & Q(empty_before=False, empty_after=True)),
    "known": Coalesce(Sum("evidence__len", filter=REPLAYED), 0),
    "kept_before": _sum("evidence_before"),
    "kept_after": _sum("evidence_after"),
    "lost_in": Count("pk", filter=~Q(lost=[])),
    "gained_in": Count("pk", filter=~Q(gained=[])),
    "median_before": _Median("tokens_before", filter=REPLAYED),
    "median_after": _Median("tokens_after", filter=REPLAYED),
}
# An annotation must not have the name of a field.
_NAMES = {
    "sum_before": "tokens_before", "sum_after": "tokens_after", "were_empty": "empty_before",
    "are_empty": "empty_after", "known": "evidence", "kept_before": "evidence_before",
    "kept_after": "evidence_kept", "lost_in": "lost", "gained_in": "gained",
}  # fmt: skip


def read_figures(backtests: Iterable[Backtest]) -> dict[int, BacktestFigures]:
    """Return the figures of each backtest by its id, in one query."""
    rows = BacktestRow.objects.filter(backtest__in=list(backtests)).order_by().values("backtest_id")
    return {each["backtest_id"]: _figures(each) for each in rows.annotate(**_COUNTED)}


def _figures(counted: Mapping[str, Any]) -> BacktestFigures:
    return BacktestFigures(**{_NAMES.get(name, name): counted[name] for name in _COUNTED})


def figures_of(backtest: Backtest) -> BacktestFigures:
    return read_figures([backtest]).get(backtest.pk, BacktestFigures())


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


_LOGGED = [f"assembly__{name}" for name in SPLIT]
_KNOWN = Q(prompt_after__isnull=False, **{f"{name}__isnull": False for name in _LOGGED})
_SUMS = {
    "prompts": Count("pk"),
    **{
        f"sum_{place}": Sum(name)
        for place, name in enumerate((*_LOGGED, "prompt_after", "cached_after", "cacheable_after"))
    },
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
            splits = (Split.of(*sums[:3]), Split.of(*sums[3:]))
            before, after = (price.dollars(split) for split in splits if split)
            costs[backtest_id] = _add(so_far, prompts, prompts, before, after)
    return costs


def _add(costs: BacktestCosts, prompts: int, priced: int, before: float, after: float) -> BacktestCosts:
    return BacktestCosts(
        costs.prompts + prompts, costs.priced + priced, costs.before + before, costs.after + after
    )


def row_dollars(row: BacktestRow, book: PriceBook) -> tuple[float | None, float | None]:
    """Return what a row's prompt cost as logged, and what it would cost; None if unknown.

    Load the row with its assembly and team.
    """
    logged, again = row.assembly.split, row.split_after
    if logged is None or again is None:
        return None, None
    before, after = (cost_of(row.assembly, split, book) for split in (logged, again))
    return before.dollars if before else None, after.dollars if after else None
