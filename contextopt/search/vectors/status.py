"""The progress of embedding, for the Settings page and the command."""

from dataclasses import dataclass

from django.db.models import Count, Q, Sum

from contextopt.search.models import EmbeddingFill, EmbeddingModel, EmbeddingState, EmbeddingTodo

# Count only up to this number, because the page asks every two seconds.
BACKLOG_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class EmbeddingStatus:
    """`model` is active. `building` replaces it once all `total` rows are `done`. Both may be empty.

    `backlog` counts later writes that still wait, up to ten thousand.
    """

    model: str
    building: str
    done: int
    total: int
    backlog: int

    @property
    def is_settled(self) -> bool:
        """Return whether nothing is left to do."""
        return bool(self.model) and not self.building and not self.backlog and self.done >= self.total

    @property
    def percent(self) -> int:
        return self.done * 100 // self.total if self.total else 100

    @property
    def backlog_counted(self) -> int:
        return BACKLOG_COUNTED

    @property
    def backlog_is_more(self) -> bool:
        return self.backlog > BACKLOG_COUNTED


def embedding_status() -> EmbeddingStatus:
    names = dict(EmbeddingModel.objects.fed().values_list("state", "name"))
    newest = EmbeddingState.BUILDING if EmbeddingState.BUILDING in names else EmbeddingState.ACTIVE
    sums = EmbeddingFill.objects.filter(model__state=newest).aggregate(
        walked=Sum("walked", default=0),
        total=Sum("total", default=0),
        unfilled=Count("pk", filter=Q(is_filled=False)),
    )
    # Rows deleted since the fill began are not walked; later ones are.
    total = max(sums["total"], sums["walked"])
    return EmbeddingStatus(
        model=names.get(EmbeddingState.ACTIVE, ""),
        building=names.get(EmbeddingState.BUILDING, ""),
        done=min(sums["walked"], total - 1) if sums["unfilled"] and total else total,
        total=total,
        backlog=EmbeddingTodo.objects.all()[: BACKLOG_COUNTED + 1].count(),
    )
