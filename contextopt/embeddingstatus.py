"""How far the vectors are: for the page of settings and the command."""

from dataclasses import dataclass

from django.db.models import Sum

from contextopt.models import EmbeddingFill, EmbeddingModel, EmbeddingState, EmbeddingTodo

# More are not counted: the page asks every other second.
BACKLOG_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class EmbeddingStatus:
    """`model` is in force, `building` takes its place once all `total` rows are `done`; both may be empty.

    `backlog` is what was written since and waits, counted up to ten thousand.
    """

    model: str
    building: str
    done: int
    total: int
    backlog: int
    is_indexed: bool

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do."""
        return bool(self.model) and not self.building and not self.backlog and self.done >= self.total

    @property
    def share(self) -> float:
        return self.done / self.total if self.total else 1.0

    @property
    def backlog_is_more(self) -> bool:
        return self.backlog > BACKLOG_COUNTED


def embedding_status() -> EmbeddingStatus:
    names = dict(EmbeddingModel.objects.fed().values_list("state", "name"))
    newest = EmbeddingState.BUILDING if EmbeddingState.BUILDING in names else EmbeddingState.ACTIVE
    fills = EmbeddingFill.objects.filter(model__state=newest)
    sums = fills.aggregate(walked=Sum("walked", default=0), total=Sum("total", default=0))
    is_filled = not fills.filter(is_filled=False).exists()
    # Rows that were deleted since the fill began are not walked.
    total = max(sums["total"], sums["walked"])
    return EmbeddingStatus(
        model=names.get(EmbeddingState.ACTIVE, ""),
        building=names.get(EmbeddingState.BUILDING, ""),
        done=total if is_filled else min(sums["walked"], total - 1),
        total=total,
        backlog=EmbeddingTodo.objects.all()[: BACKLOG_COUNTED + 1].count(),
        is_indexed=fills.filter(is_indexed=True).exists(),
    )
