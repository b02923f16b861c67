"""The progress of embedding, for the Settings page and the command."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

import numpy as np
from django.db import connection
from django.db.models import Count, Model, Q, QuerySet, Sum
from django.utils import timezone

from contextopt.locks import Lock, wait_turn
from contextopt.search.embedders.current import get_embedder
from contextopt.search.embedders.values import TEXT_MAX, EmbeddingUnavailable, Vectors
from contextopt.search.models import EmbeddingFill, EmbeddingModel, EmbeddingState, EmbeddingTodo
from contextopt.search.registry import Searchable
from contextopt.sql import copy_in, execute, fetch_all, fetch_column

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


# Header and trailer of PostgreSQL's binary COPY format, and the day its clock begins.
COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
COPY_END = struct.pack(">h", -1)
POSTGRES_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Text:
    """A row's text for embedding. `hash` covers everything that the vector depends on."""

    id: int
    corpus_id: int
    text: str
    hash: bytes


@dataclass(frozen=True, slots=True)
class Prepared:
    """The changes of a batch: vectors to store, and rows whose vector is deleted. Other vectors stay."""

    searchable: Searchable
    model: EmbeddingModel
    texts: tuple[Text, ...]
    vectors: Vectors
    gone: tuple[int, ...]
    unchanged: tuple[int, ...]


def prepare(searchable: Searchable, model: EmbeddingModel, ids: Sequence[int]) -> Prepared:
    """Embed the rows whose vector is missing or outdated. Writes nothing.

    Raises:
        EmbeddingUnavailable: the model cannot be loaded or reached, or has changed.
    """
    live = _read_texts(searchable, ids)
    owner = searchable.owner_column
    rows = _vectors(searchable, model).filter(**{f"{owner}__in": ids}).values_list(owner, "content_hash")
    known = {row: bytes(found) for row, found in rows}
    changed = [text for text in live if known.get(text.id) != text.hash]
    vectors = _embed(model, [text.text for text in changed])
    has_vector = vectors.any(axis=1)
    kept = known.keys() & {text.id for text in live}
    empty = {text.id for text, has in zip(changed, has_vector, strict=True) if not has}
    return Prepared(
        searchable=searchable,
        model=model,
        texts=tuple(text for text, has in zip(changed, has_vector, strict=True) if has),
        vectors=vectors[has_vector],
        gone=tuple((known.keys() - kept) | (empty & known.keys())),
        unchanged=tuple(text.id for text in live if known.get(text.id) == text.hash),
    )


def _embed(model: EmbeddingModel, texts: Sequence[str]) -> Vectors:
    if not texts:
        return np.zeros((0, model.dimensions), np.float32)
    vectors = get_embedder(model.name).embed(texts)
    if vectors.shape != (len(texts), model.dimensions):
        raise EmbeddingUnavailable(
            f"{model.name} returns {vectors.shape[1]} dimensions, not {model.dimensions} as before"
        )
    return vectors


def store(prepared: Prepared) -> dict[int, int]:
    """Write the prepared batch inside the caller's transaction. Return the skipped rows with their corpora.

    Rows that another transaction is deleting are skipped. Waiting for them while holding locks on others
    could end in a deadlock. If the deletion is rolled back they remain, so they must be processed later.
    """
    searchable, model = prepared.searchable, prepared.model
    wait_turn(Lock.VECTORS, model.pk)
    changed = [*(text.id for text in prepared.texts), *prepared.gone]
    dates = _hold(searchable, changed)
    execute(
        f"DELETE FROM {searchable.embedding_table}"
        f" WHERE model_id = %s AND {searchable.owner_column} = ANY(%s)",
        [model.pk, list(dates)],
    )
    columns = ["model_id", "corpus_id", searchable.owner_column, "content_hash", "created_at", "embedding"]
    if searchable.has_windows:
        columns.append("date")
    copy_sql = f"COPY {searchable.embedding_table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, copy_in(cursor, copy_sql) as copy:
        copy.write(_encode(prepared, dates))
    if searchable.has_windows and prepared.unchanged:
        changed += _date_anew(prepared, dates)
    missing = [row for row in changed if row not in dates]
    # Deleted rows took their vectors with them.
    rows = searchable.model._default_manager.filter(pk__in=missing)
    return dict(rows.values_list("pk", searchable.corpus_column)) if missing else {}


def _hold(searchable: Searchable, ids: Sequence[int]) -> dict[int, datetime]:
    """Lock the rows against deletion, and return them with their dates. Skip rows that are being deleted."""
    rows = fetch_all(
        f"SELECT id, {searchable.date_column} FROM {searchable.table}"
        " WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE SKIP LOCKED",
        [list(ids)],
    )
    return dict(rows)


def _date_anew(prepared: Prepared, dates: dict[int, datetime]) -> list[int]:
    """Update the dates of vectors that stay; add those rows to `dates` and return all."""
    searchable = prepared.searchable
    moved = fetch_column(
        f"""
        SELECT t.id FROM {searchable.embedding_table} e
          JOIN {searchable.table} t ON t.id = e.{searchable.owner_column}
         WHERE e.model_id = %s AND e.{searchable.owner_column} = ANY(%s)
           AND e.date <> t.{searchable.date_column}
        """,
        [prepared.model.pk, list(prepared.unchanged)],
    )
    if not moved:
        return []
    held = _hold(searchable, moved)
    execute(
        f"""
        UPDATE {searchable.embedding_table} e SET date = t.date
          FROM unnest(%s::bigint[], %s::timestamptz[]) AS t(id, date)
         WHERE e.{searchable.owner_column} = t.id AND e.model_id = %s
        """,
        [list(held), list(held.values()), prepared.model.pk],
    )
    dates |= held
    return moved


def _encode(prepared: Prepared, dates: Mapping[int, datetime]) -> bytes:
    """Return the rows that have a date in COPY's binary format.

    The text format takes twenty times as long.
    """
    now = _microseconds(timezone.now())
    size, is_dated = prepared.model.dimensions, prepared.searchable.has_windows
    # A half vector is its length, a reserved field, and the numbers, two bytes each.
    halves = prepared.vectors.astype(">f2")
    rows = [COPY_HEAD]
    for text, half in zip(prepared.texts, halves, strict=True):
        if text.id in dates:
            rows += (
                struct.pack(
                    ">hiqiqiqi", 6 + is_dated, 8, prepared.model.pk, 8, text.corpus_id, 8, text.id, 16
                ),
                text.hash,
                struct.pack(">iqihh", 8, now, 4 + 2 * size, size, 0),
                half.tobytes(),
                struct.pack(">iq", 8, _microseconds(dates[text.id])) if is_dated else b"",
            )
    return b"".join([*rows, COPY_END])


def _microseconds(moment: datetime) -> int:
    return (moment - POSTGRES_EPOCH) // timedelta(microseconds=1)


def _read_texts(searchable: Searchable, ids: Sequence[int]) -> list[Text]:
    """Return the texts of the live ones among the rows."""
    texts = ", ".join(f"left(t.{column}, {TEXT_MAX})" for column in searchable.text_columns)
    rows = fetch_all(
        f"""
        SELECT t.id, t.{searchable.corpus_column}, concat_ws(E'\\n', {texts})
          FROM {searchable.table} t WHERE t.id = ANY(%s) AND ({searchable.live_sql}) ORDER BY t.id
        """,
        [list(ids)],
    )
    return [
        Text(row, corpus, text[:TEXT_MAX], blake2b(text[:TEXT_MAX].encode(), digest_size=16).digest())
        for row, corpus, text in rows
    ]


def _vectors(searchable: Searchable, model: EmbeddingModel) -> QuerySet[Model]:
    return searchable.embedding._default_manager.filter(model=model)


def drop_some(searchable: Searchable, model: EmbeddingModel, *, limit: int) -> int:
    """Delete some of a retired model's vectors and return their number."""
    some = list(_vectors(searchable, model).values_list("pk", flat=True)[:limit])
    return searchable.embedding._default_manager.filter(pk__in=some).delete()[0]


def has_more_than(searchable: Searchable, model: EmbeddingModel, count: int) -> bool:
    """Return whether the model has more than this many vectors of the table."""
    return _vectors(searchable, model)[count : count + 1].exists()
