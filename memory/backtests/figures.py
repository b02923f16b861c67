"""The figures of a backtest, summed over its rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Aggregate, Count, F, FloatField, Q, Sum
from django.db.models.functions import Coalesce

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
