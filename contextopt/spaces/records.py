"""The only way to write records. Every write computes the summary, its tokens and the content hash.

Each function is one transaction. Writers of a space first lock its row and its counters, so that two writers,
or a writer and a deletion of the space, never deadlock.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict

from django.db import connection, transaction
from django.db.models import Count, Q
from django.utils import timezone
from psycopg.types.json import Jsonb

from contextopt.engine.rendering import summary_line
from contextopt.engine.text.lexical import detect_language
from contextopt.engine.text.tokens import Tokenizer, get_tokenizer
from contextopt.errors import DuplicateRecord, NotFound, PurgedRecord
from contextopt.people.audit import note_event
from contextopt.search.registry import Searchable
from contextopt.spaces.inputs import RecordIn, RecordPatch
from contextopt.spaces.models import (
    EXTERNAL_ID_MAX,
    PURGE_KEY_TABLE,
    SOURCE_MAX,
    Record,
    RecordEmbedding,
    Space,
    purged_id_sql,
)
from contextopt.sql import copy_in, execute, fetch_all, fetch_column, fetch_one

CONTENT = ("title", "type", "date", "tags", "notes", "pinned", "thread", "position", "metadata")
STATE = (*CONTENT, "view_count", "deleted_at", "language")
DERIVED = ("content_hash", "summary", "summary_tokens", "summary_encoding", "language")
# Changes that go to the team's log. Changes of texts are in the revisions instead.
AUDITED = {"delete": "record.deleted", "restore": "record.restored"}
SEARCHABLE = Searchable(
    name="record",
    model=Record,
    embedding=RecordEmbedding,
    owner_column="record_id",
    corpus_column="space_id",
    text_columns=("title", "title", "notes"),
    live_sql="t.deleted_at IS NULL",
    source_column="source",
    has_windows=True,
)

type Status = Literal["created", "updated", "unchanged"]
type Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RowResult:
    """The result of one row of a bulk write."""

    status: Status
    record_id: int


class Recount(TypedDict):
    """How many of a space's records are counted in its new encoding."""

    done: int
    total: int


def recount_progress(space: Space) -> Recount | None:
    """Return how far the records are counted anew after a change of the encoding; None if all are."""
    if space.recount_from is None:
        return None
    rows = Record.objects.filter(space=space, purged_at=None)
    found = rows.aggregate(done=Count("pk", filter=Q(pk__lte=space.recount_from)), total=Count("pk"))
    return Recount(done=found["done"], total=found["total"])


def tokenizer_of(space: Space) -> Tokenizer:
    """Return the tokenizer of the space's active config."""
    return get_tokenizer(space.configs.active().get().settings.encoding)


def create_record(*, space: Space, data: RecordIn, actor: str) -> Record:
    """Add one record.

    Raises:
        DuplicateRecord: the space has a record of this source and external id.
    """
    with transaction.atomic():
        lock_space(space)
        key = (data.source, data.external_id)
        if data.external_id and (found := _existing(space, [key]).get(key)):
            raise DuplicateRecord(found.id)
        record_id = _insert(space, [data], tokenizer_of(space), actor)[0]
    return Record.objects.get(pk=record_id)


def update_record(*, record: Record, changes: RecordPatch, actor: str) -> Record:
    """Change the given fields and keep the old state as a revision, unless nothing changes.

    Raises:
        PurgedRecord: the record's text was erased for good.
    """
    return _change(record, changes.model_dump(exclude_unset=True), actor=actor, change="update")


def delete_record(*, record: Record, actor: str) -> Record:
    """Remove the record from every context. `restore_record` undoes it. Deleting it again does nothing."""
    if record.deleted_at is not None:
        return record
    return _change(record, {"deleted_at": timezone.now()}, actor=actor, change="delete")


def restore_record(*, record: Record, actor: str) -> Record:
    """Undo a deletion.

    Raises:
        PurgedRecord: there is nothing left to restore.
    """
    return _change(record, {"deleted_at": None}, actor=actor, change="restore")


def restore_revision(*, record: Record, number: int, actor: str) -> Record:
    """Give the record the content of an earlier revision; its current content becomes a revision too.

    Raises:
        NotFound: the record has no such revision.
    """
    revision = record.revisions.filter(number=number).first()
    if revision is None:
        raise NotFound(f"The record has no revision {number}.")
    state = {name: getattr(revision, name) for name in (*CONTENT, "deleted_at")}
    if revision.language:
        state["language"] = revision.language
    return _change(record, state, actor=actor, change="undo")


def upsert_records(*, space: Space, rows: Sequence[RecordIn], actor: str) -> list[RowResult]:
    """Create, update or leave alone one record for each row, in one transaction.

    A row with an external id is matched by (source, external_id) and left alone if its content has not
    changed. A row without one always creates. Rows of one call with the same identity must be equal. Where a
    row does not name `pinned` or `date`, the record keeps its own.
    """
    with transaction.atomic():
        lock_space(space)
        tokenizer = tokenizer_of(space)
        first: dict[Key, int] = {}
        for index, row in enumerate(rows):
            if row.external_id:
                first.setdefault(_key(row), index)
        current = _existing(space, first)
        fresh = [
            row
            for index, row in enumerate(rows)
            if not row.external_id or (first[_key(row)] == index and _key(row) not in current)
        ]
        ids = iter(_insert(space, fresh, tokenizer, actor))
        changed: list[tuple[_Existing, RecordIn]] = []
        results: dict[int, RowResult] = {}
        for index, row in enumerate(rows):
            if row.external_id and first[_key(row)] != index:
                continue
            results[index] = _settle(row, current, ids, changed)
        _overwrite(changed, tokenizer, actor)
    final = {_key(rows[index]): result for index, result in results.items()}
    return [
        results.get(index) or RowResult("unchanged", final[_key(row)].record_id)
        for index, row in enumerate(rows)
    ]


@dataclass(frozen=True, slots=True)
class _Existing:
    id: int
    content_hash: bytes
    is_purged: bool
    pinned: bool
    date: datetime

    def has_content_of(self, row: RecordIn) -> bool:
        """Tell whether the record's content is that of the row.

        A row without a date was hashed without one, but an edit of its content hashed the date that it got.
        """
        dated = row if row.date else row.model_copy(update={"date": self.date})
        return any(self.content_hash == hash_content(each) for each in (row, dated))


def _key(row: RecordIn) -> Key:
    return (row.source, row.external_id)


def _settle(
    row: RecordIn,
    current: dict[Key, _Existing],
    new_ids: Iterable[int],
    changed: list[tuple[_Existing, RecordIn]],
) -> RowResult:
    found = current.get(_key(row)) if row.external_id else None
    if found is None:
        return RowResult("created", next(iter(new_ids)))
    if "pinned" not in row.model_fields_set:
        row = row.model_copy(update={"pinned": found.pinned})
    if found.is_purged or found.has_content_of(row):
        return RowResult("unchanged", found.id)
    changed.append((found, row))
    return RowResult("updated", found.id)


def split_identity(text: str) -> Iterator[tuple[str, str]]:
    """Yield each way to split SOURCE:EXTERNAL_ID that a record can have. Both parts may contain colons."""
    for at, character in enumerate(text[: SOURCE_MAX + 1]):
        if character == ":" and 0 < len(text) - at - 1 <= EXTERNAL_ID_MAX:
            yield text[:at], text[at + 1 :]


def hash_content(content: RecordIn | Record) -> bytes:
    """Return a 16-byte hash of the content."""
    values = [getattr(content, name) for name in CONTENT]
    text = json.dumps(values, default=str, ensure_ascii=False, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


# Tables are locked in this order: each owner before what is deleted with it.
_LOCK_SPACE = """
SELECT FROM contextopt_team t
  JOIN contextopt_space s ON s.team_id = t.id
  JOIN contextopt_spacecounts c ON c.space_id = s.id
 WHERE s.id = %s FOR KEY SHARE OF t, s FOR NO KEY UPDATE OF c
"""


def lock_space(space: Space) -> None:
    """Wait until no other writer is in the space, and keep others out until the transaction ends.

    Raises:
        NotFound: the space was deleted in the meantime.
    """
    if fetch_one(_LOCK_SPACE, [space.pk]) is None:
        raise NotFound(f"The space {space.slug!r} was deleted in the meantime.")


# A purged record has a hash instead of its external id. Compute the hashes once, before the join, and only if
# the space has such a record: for a thousand rows they take a fifth of the time of writing them.
_FIND_EXISTING = f"""
WITH given AS MATERIALIZED (
    SELECT source, external_id FROM unnest(%s::text[], %s::text[]) AS k(source, external_id)
), hashed AS MATERIALIZED (
    SELECT g.source, g.external_id, {purged_id_sql("%s::bigint", "g.source", "g.external_id")} AS hash
      FROM given g CROSS JOIN {PURGE_KEY_TABLE}
     WHERE EXISTS (SELECT FROM contextopt_record p WHERE p.space_id = %s AND p.purged_at IS NOT NULL)
)
SELECT g.source, g.external_id, r.id, r.content_hash, r.purged_at IS NOT NULL, r.pinned, r.date
  FROM given g JOIN contextopt_record r
    ON r.space_id = %s AND r.source = g.source AND r.external_id = g.external_id AND r.external_id <> ''
 UNION ALL
SELECT h.source, h.external_id, r.id, r.content_hash, r.purged_at IS NOT NULL, r.pinned, r.date
  FROM hashed h JOIN contextopt_record r
    ON r.space_id = %s AND r.source = h.source AND r.external_id = h.hash AND r.external_id <> ''
"""


def _existing(space: Space, keys: Iterable[Key]) -> dict[Key, _Existing]:
    keys = list(keys)
    if not keys:
        return {}
    sources, external_ids = [source for source, _ in keys], [external for _, external in keys]
    rows = fetch_all(_FIND_EXISTING, [sources, external_ids, *[space.pk] * 4])
    return {
        (source, external_id): _Existing(record_id, bytes(digest), is_purged, pinned, date)
        for source, external_id, record_id, digest, is_purged, pinned, date in rows
    }


def _summarise(row: RecordIn | Record, date: datetime, tokenizer: Tokenizer) -> tuple[str, int]:
    line = summary_line(row.title, row.type, date, row.tags, row.notes)
    return line, tokenizer.count(line)


def _stored_values(row: RecordIn, date: datetime, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the row's content and the values computed from it, by column name."""
    line, tokens = _summarise(row, date, tokenizer)
    return {
        **{name: getattr(row, name) for name in CONTENT},
        "date": date,
        "metadata": Jsonb(row.metadata),
        "content_hash": hash_content(row),
        "summary": line,
        "summary_tokens": tokens,
        "summary_encoding": tokenizer.name,
        "language": row.language or detect_language(row.title, row.notes),
    }


_COPY_COLUMNS = (
    "id", "space_id", "source", "external_id", *CONTENT, "view_count",
    "last_viewed_at", "deleted_at", *DERIVED, "created_by", "created_at", "updated_at",
)  # fmt: skip


def _insert(space: Space, rows: Sequence[RecordIn], tokenizer: Tokenizer, actor: str) -> list[int]:
    """Copy new rows in and return their ids, in row order."""
    if not rows:
        return []
    now = timezone.now()
    ids = fetch_column(
        "SELECT nextval(pg_get_serial_sequence('contextopt_record', 'id')) FROM generate_series(1, %s)",
        [len(rows)],
    )
    columns = ", ".join(f'"{name}"' for name in _COPY_COLUMNS)
    statement = f"COPY contextopt_record ({columns}) FROM STDIN"
    with connection.cursor() as cursor, copy_in(cursor, statement) as copy:
        for record_id, row in zip(ids, rows, strict=True):
            values = {
                **_stored_values(row, row.date or now, tokenizer),
                "id": record_id,
                "space_id": space.pk,
                "source": row.source,
                "external_id": row.external_id,
                "view_count": row.view_count,
                "last_viewed_at": row.last_viewed_at,
                "deleted_at": row.deleted_at,
                "created_by": actor,
                "created_at": now,
                "updated_at": now,
            }
            copy.write_row([values[name] for name in _COPY_COLUMNS])
    return ids


def _overwrite(changed: Sequence[tuple[_Existing, RecordIn]], tokenizer: Tokenizer, actor: str) -> None:
    if not changed:
        return
    keep_revisions([found.id for found, _ in changed], actor=actor, change="import")
    now = timezone.now()
    parameters = [
        {**_stored_values(row, row.date or found.date, tokenizer), "id": found.id, "updated_at": now}
        for found, row in changed
    ]
    assignments = ", ".join(f'"{name}" = %({name})s' for name in (*CONTENT, *DERIVED, "updated_at"))
    with connection.cursor() as cursor:
        cursor.executemany(
            f"UPDATE contextopt_record SET {assignments}, version = version + 1 WHERE id = %(id)s", parameters
        )


def keep_revisions(record_ids: Sequence[int], *, actor: str, change: str) -> None:
    """Store the records' current state as their next revisions.

    The caller's change must raise the version. Otherwise the database refuses the next revision.
    """
    state = ", ".join(f'r."{name}"' for name in STATE)
    columns = ", ".join(f'"{name}"' for name in STATE)
    execute(
        f"""
        INSERT INTO contextopt_recordrevision
               (record_id, number, version, changed_at, changed_by, change, {columns})
        SELECT r.id,
               1 + coalesce((SELECT max(v.number) FROM contextopt_recordrevision v
                              WHERE v.record_id = r.id), 0),
               r.version, now(), %s::text, %s::text, {state}
          FROM contextopt_record r WHERE r.id = ANY(%s::bigint[])
        """,
        [actor, change, list(record_ids)],
    )


def _change(record: Record, state: dict[str, Any], *, actor: str, change: str) -> Record:
    with transaction.atomic():
        lock_space(record.space)
        current = Record.objects.select_for_update(no_key=True).get(pk=record.pk)
        current.space = record.space
        if current.purged_at is not None:
            raise PurgedRecord("The record's text was erased for good.")
        different = {name: value for name, value in state.items() if getattr(current, name) != value}
        if not different:
            return current
        keep_revisions([current.pk], actor=actor, change=change)
        for name, value in different.items():
            setattr(current, name, value)
        current.version += 1
        # The hash of a row that came without a date is not that of its record, so it stays with the content.
        if not different.keys().isdisjoint(CONTENT):
            tokenizer = tokenizer_of(current.space)
            current.content_hash = hash_content(current)
            current.summary, current.summary_tokens = _summarise(current, current.date, tokenizer)
            current.summary_encoding = tokenizer.name
        if "language" not in state and not different.keys().isdisjoint({"title", "notes"}):
            current.language = detect_language(current.title, current.notes)
        current.save(update_fields=[*different, *DERIVED, "version", "updated_at"])
        if change in AUDITED:
            subject = f"{current.space.slug}: record {current.pk}"
            note_event(team_id=current.space.team_id, actor=actor, action=AUDITED[change], subject=subject)
    return current


def summarise_again(records: Iterable[Record], tokenizer: Tokenizer) -> int:
    """Recount stored summaries with another tokenizer; return how many were written."""
    parameters = [
        (line, tokens, tokenizer.name, record.pk)
        for record in records
        for line, tokens in [_summarise(record, record.date, tokenizer)]
    ]
    with connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE contextopt_record SET summary = %s, summary_tokens = %s, summary_encoding = %s"
            " WHERE id = %s AND purged_at IS NULL",
            parameters,
        )
    return len(parameters)
