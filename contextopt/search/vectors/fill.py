"""Keep vectors up to date: process writes, fill new models, and switch between models.

Work is done in small batches. Each reads from the database what is missing, so a run may stop at any point
and may be repeated.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import batched, groupby
from time import monotonic

import structlog
from django.db import transaction
from django.utils import timezone

from contextopt.locks import Lock, wait_turn
from contextopt.search import registry
from contextopt.search.embedders.current import configured_embedder, get_embedder
from contextopt.search.embedders.values import WORDLLAMA, EmbeddingUnavailable
from contextopt.search.models import EmbeddingFill, EmbeddingModel, EmbeddingState, EmbeddingTodo
from contextopt.search.registry import Searchable
from contextopt.search.vectors.indexes import build_index, drop_index, index_is_ready
from contextopt.search.vectors.nearest import EXACT_ROWS
from contextopt.search.vectors.storage import Prepared, drop_some, has_more_than, prepare, store
from contextopt.sql import fetch_column

log = structlog.get_logger(__name__)

# Rows per batch, for a fast model and for a slow one, so that a batch takes a few seconds at most.
BATCH_ROWS = 2_000
SLOW_BATCH_ROWS = 64
FAST_MODELS = (WORDLLAMA,)
DROP_ROWS = 10_000
# A search that started under the old model may still need its vectors.
RETIRED_FOR = timedelta(minutes=1)


@dataclass(slots=True)
class Work:
    """The work done so far. `embedded` counts vectors, `unchanged` rows whose vector was already right."""

    embedded: int = 0
    unchanged: int = 0

    def add(self, prepared: Prepared, left: Collection[int]) -> None:
        """Count the stored part of a batch, which is everything except the skipped rows."""
        self.embedded += sum(text.id not in left for text in prepared.texts)
        self.unchanged += len(prepared.unchanged)


type OnProgress = Callable[[Work], object]


def work_through(
    *, seconds: float, index_seconds: float | None, work: Work, on_progress: OnProgress = lambda _: None
) -> bool:
    """Process due work in batches until nothing is left or time is up; return whether nothing is left.

    Args:
        seconds: when to stop starting batches.
        index_seconds: how long to wait for an index that the server builds, None for no limit.

    Raises:
        EmbeddingUnavailable: the configured model cannot be loaded or reached. Other work was done.
    """
    ends = monotonic() + seconds
    models = choose_models()
    while embed_next(models, work):
        on_progress(work)
        if monotonic() > ends:
            return False
    if not all(_index(fill, wait_seconds=index_seconds) for fill in _unindexed(models)):
        return False
    return _switch(models) and _clear_retired(ends)


def choose_models() -> list[EmbeddingModel]:
    """Return the models to feed: the active one, and the one in the settings if it differs.

    The very first model becomes active at once. A model that is removed from the settings before it becomes
    active is retired.

    Raises:
        EmbeddingUnavailable: the first model cannot be loaded or reached.
    """
    wanted = configured_embedder()
    fed = list(EmbeddingModel.objects.fed())
    # The model being built is newer than the active one.
    newest = {model.state: model.name for model in fed}
    if newest.get(EmbeddingState.BUILDING, newest.get(EmbeddingState.ACTIVE)) != wanted:
        try:
            fed = _choose(wanted, get_embedder(wanted).dimensions)
        except EmbeddingUnavailable as error:
            if not fed:
                raise
            log.warning("embedding_model_unavailable", model=wanted, problem=str(error))
    _open_fills(fed)
    return fed


@transaction.atomic
def _choose(wanted: str, dimensions: int) -> list[EmbeddingModel]:
    wait_turn(Lock.EMBEDDING_CHOICE)
    for other in EmbeddingModel.objects.filter(state=EmbeddingState.BUILDING).exclude(name=wanted):
        _retire(other)
    found, is_new = EmbeddingModel.objects.get_or_create(
        name=wanted, defaults={"dimensions": dimensions, "state": EmbeddingState.RETIRED}
    )
    if found.state == EmbeddingState.RETIRED:
        is_first = not EmbeddingModel.objects.active().exists()
        found.state = EmbeddingState.ACTIVE if is_first else EmbeddingState.BUILDING
        found.activated_at = timezone.now() if is_first else None
        found.retired_at = None
        found.save(update_fields=["state", "activated_at", "retired_at"])
        # It missed all writes while it was retired, so fill it again. Vectors that are still right are kept.
        found.fills.all().delete()
        log.info("embedding_model_chosen", model=wanted, state=found.state, is_new=is_new)
    return list(EmbeddingModel.objects.fed())


def _open_fills(models: Sequence[EmbeddingModel]) -> None:
    """Ensure a fill for each model and table, since a new app may have added one with rows."""
    known = set(EmbeddingFill.objects.filter(model__in=models).values_list("model_id", "searchable"))
    for model in models:
        for searchable in registry.all():
            if (model.pk, searchable.name) not in known:
                live = f"SELECT count(*) FROM {searchable.table} t WHERE {searchable.live_sql}"
                [total] = fetch_column(live)
                EmbeddingFill.objects.get_or_create(
                    model=model, searchable=searchable.name, defaults={"total": total}
                )


def embed_next(models: Sequence[EmbeddingModel], work: Work) -> bool:
    """Embed the next batch, recent writes before older rows. Return False when everything is done.

    Raises:
        EmbeddingUnavailable: no model that has work can be reached.
    """
    problem: EmbeddingUnavailable | None = None
    limit = min(batch_rows(model) for model in models)
    lines = list(EmbeddingTodo.objects.filter(model=None).order_by("id")[:limit])
    if lines:
        embed_lines(lines, models, work)
        return True
    for model in models:
        try:
            # Lines are left for a model that could not be reached, or if a row could not be locked.
            left = list(EmbeddingTodo.objects.filter(model=model).order_by("id")[: batch_rows(model)])
            if (left and embed_lines(left, [model], work)) or _fill_next(model, work):
                return True
        except EmbeddingUnavailable as error:
            problem = error
    if problem is not None:
        raise problem
    return False


def batch_rows(model: EmbeddingModel) -> int:
    return BATCH_ROWS if model.name in FAST_MODELS else SLOW_BATCH_ROWS


def embed_lines(lines: Sequence[EmbeddingTodo], models: Sequence[EmbeddingModel], work: Work) -> bool:
    """Embed the rows of these lines under each of the models, and delete the lines.

    New lines replace them where work is left: for other current models, for a model that cannot be reached
    while another can, and for rows that are being deleted at this moment. Return False if all rows are being
    deleted.

    Raises:
        EmbeddingUnavailable: none of the models can be reached; nothing was changed.
    """
    prepared: list[Prepared] = []
    reached: list[int] = []
    problem: EmbeddingUnavailable | None = None
    for model in models:
        try:
            prepared += _prepare_lines(lines, model)
            reached.append(model.pk)
        except EmbeddingUnavailable as error:
            problem = error
    if problem is not None and not reached:
        raise problem
    with transaction.atomic():
        left = sum(_store(batch, work) for batch in prepared)
        # Read here, since a model created later sees the rows themselves.
        unreached = EmbeddingModel.objects.fed().exclude(pk__in=reached)
        EmbeddingTodo.objects.bulk_create(
            EmbeddingTodo(
                model=each, searchable=line.searchable, corpus_id=line.corpus_id, row_id=line.row_id
            )
            for each in unreached
            for line in lines
            if line.model_id is None
        )
        EmbeddingTodo.objects.filter(pk__in=[line.pk for line in lines]).delete()
    return left < len({(line.searchable, line.row_id) for line in lines}) * len(reached)


def _store(prepared: Prepared, work: Work) -> int:
    """Store a batch, leave lines for rows that could not be locked, and return their number."""
    left = store(prepared)
    EmbeddingTodo.objects.bulk_create(
        EmbeddingTodo(model=prepared.model, searchable=prepared.searchable.name, corpus_id=corpus, row_id=row)
        for row, corpus in left.items()
    )
    work.add(prepared, left)
    return len(left)


def _prepare_lines(lines: Iterable[EmbeddingTodo], model: EmbeddingModel) -> list[Prepared]:
    ordered = sorted(lines, key=lambda line: line.searchable)
    return [
        prepare(searchable, model, sorted({line.row_id for line in group}))
        for name, group in groupby(ordered, key=lambda line: line.searchable)
        if (searchable := registry.find(name)) is not None
    ]


def _fill_next(model: EmbeddingModel, work: Work) -> bool:
    """Embed the next rows that are older than the model."""
    fill = model.fills.filter(is_filled=False).order_by("id").first()
    if fill is None:
        return False
    searchable = registry.get(fill.searchable)
    ids = fetch_column(
        f"""
        SELECT t.id FROM {searchable.table} t
         WHERE t.id > %s AND ({searchable.live_sql}) ORDER BY t.id LIMIT %s
        """,
        [fill.filled_to, batch_rows(model)],
    )
    prepared = prepare(searchable, model, ids)
    with transaction.atomic():
        _store(prepared, work)
        fill.filled_to = ids[-1] if ids else fill.filled_to
        fill.walked += len(ids)
        fill.is_filled = not ids
        fill.save(update_fields=["filled_to", "walked", "is_filled"])
    return True


def ensure_embedded(
    searchable: Searchable, corpus_id: int, *, limit: int, on_progress: OnProgress = lambda _: None
) -> Work:
    """Embed missing vectors of one corpus under the active model, at most `limit` rows, immediately.

    For commands, which search right after an import, without a worker.

    Raises:
        EmbeddingUnavailable: the model cannot be loaded or reached.
    """
    work = Work()
    models = choose_models()
    active = [model for model in models if model.state == EmbeddingState.ACTIVE]
    done = 0
    while done < limit:
        count = min(batch_rows(active[0]), limit - done)
        mine = EmbeddingTodo.objects.filter(searchable=searchable.name, corpus_id=corpus_id)
        lines = list(mine.filter(model=None).order_by("id")[:count])
        if not lines:
            break
        embed_lines(lines, active, work)
        done += len(lines)
        on_progress(work)
    if done < limit and active[0].fills.filter(searchable=searchable.name, is_filled=False).exists():
        _embed_unseen(searchable, corpus_id, active[0], limit - done, work, on_progress)
    return work


def _embed_unseen(
    searchable: Searchable,
    corpus_id: int,
    model: EmbeddingModel,
    limit: int,
    work: Work,
    on_progress: OnProgress,
) -> None:
    """Embed rows that are older than the model and that its fill has not reached."""
    ids = fetch_column(
        f"""
        SELECT t.id FROM {searchable.table} t
         WHERE t.{searchable.corpus_column} = %s AND ({searchable.live_sql}) AND NOT EXISTS (
               SELECT FROM {searchable.embedding_table} e
                WHERE e.{searchable.owner_column} = t.id AND e.model_id = %s)
         ORDER BY t.id DESC LIMIT %s
        """,
        [corpus_id, model.pk, limit],
    )
    for some in batched(ids, batch_rows(model)):
        prepared = prepare(searchable, model, some)
        with transaction.atomic():
            _store(prepared, work)
        on_progress(work)


def _unindexed(models: Sequence[EmbeddingModel]) -> list[EmbeddingFill]:
    fills = EmbeddingFill.objects.filter(model__in=models, is_indexed=False).select_related("model")
    return [fill for fill in fills.order_by("id") if registry.find(fill.searchable) is not None]


def _index(fill: EmbeddingFill, *, wait_seconds: float | None) -> bool:
    """Build the fill's indexes if its table is too large to compare all vectors. Return False until done."""
    searchable = registry.get(fill.searchable)
    if not has_more_than(searchable, fill.model, EXACT_ROWS):
        return True
    if not index_is_ready(searchable, fill.model) and not build_index(
        searchable, fill.model, wait_seconds=wait_seconds
    ):
        return False
    EmbeddingFill.objects.filter(pk=fill.pk).update(is_indexed=True)
    return True


@transaction.atomic
def _switch(models: Sequence[EmbeddingModel]) -> bool:
    """Activate the new model once it has every row. Return whether none is waiting."""
    building = next((model for model in models if model.state == EmbeddingState.BUILDING), None)
    if building is None:
        return True
    locked = {
        model.state: model
        for model in EmbeddingModel.objects.select_for_update(no_key=True).filter(
            pk__in=[model.pk for model in models]
        )
    }
    todo = EmbeddingTodo.objects.filter(model=building)
    is_behind = building.fills.filter(is_filled=False).exists() or todo.exists()
    if EmbeddingState.BUILDING not in locked or is_behind:
        return False
    if EmbeddingState.ACTIVE in locked:
        _retire(locked[EmbeddingState.ACTIVE])
    building.state = EmbeddingState.ACTIVE
    building.activated_at = timezone.now()
    building.save(update_fields=["state", "activated_at"])
    log.info("embedding_model_switched", model=building.name)
    return True


def _retire(model: EmbeddingModel) -> None:
    model.state = EmbeddingState.RETIRED
    model.retired_at = timezone.now()
    model.save(update_fields=["state", "retired_at"])
    EmbeddingTodo.objects.filter(model=model).delete()


def _clear_retired(ends: float) -> bool:
    """Drop the indexes, vectors and fills of models retired a while ago. Return False if some are left."""
    gone = EmbeddingFill.objects.filter(
        model__state=EmbeddingState.RETIRED, model__retired_at__lt=timezone.now() - RETIRED_FOR
    )
    for fill in gone.select_related("model").order_by("id"):
        searchable = registry.find(fill.searchable)
        if searchable is not None:
            if not drop_index(searchable, fill.model):
                return False
            while drop_some(searchable, fill.model, limit=DROP_ROWS):
                if monotonic() > ends:
                    return False
        fill.delete()
    return True
