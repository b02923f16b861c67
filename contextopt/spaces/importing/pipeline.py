"""Checks rows and writes them in batches.

Each batch is one transaction, so an interrupted import is finished by running it again. Memory is bounded by
the batch (rows and bytes) and by the number of rejections kept in full.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

from django.db import DataError
from pydantic import ValidationError

from contextopt.engine.text.cleaning import cut
from contextopt.errors import Conflict, FieldProblem
from contextopt.inputs import field_problems
from contextopt.people.models import Team
from contextopt.spaces.importing.rows import Found, Notice, RawRow, Rejection, RejectionJson
from contextopt.spaces.inputs import RecordIn, SpaceIn
from contextopt.spaces.models import Space
from contextopt.spaces.records import Status, upsert_records
from contextopt.spaces.spaces import create_space
from contextopt.sql import execute, fetch_all

BATCH_ROWS = 1_000
BATCH_BYTES = 8 * 2**20
REJECTIONS_KEPT = 10_000
NOTICES_KEPT = 100
ERROR_MAX = 300
# Bounds on the noted names of unknown fields.
NAMES_NOTED, NAME_CHARS = 100, 100
RECORD_FIELDS = frozenset(RecordIn.model_fields)


class NoticeJson(TypedDict):
    message: str
    count: int
    line: int
    file: str


class ReportJson(TypedDict):
    read: int
    created: int
    updated: int
    unchanged: int
    rejected: list[RejectionJson]


@dataclass(slots=True)
class ImportReport:
    """Counts of an import so far. `read` is the sum of the others."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    rejected_count: int = 0
    rejected: list[Rejection] = field(default_factory=list)
    """The first ten thousand rejections, in the order of the rows."""
    kept_in_metadata: set[str] = field(default_factory=set)
    """Names of fields that records do not have."""
    notices: dict[str, Notice] = field(default_factory=dict)
    """The messages about rows that were left out or changed, each with its first place and its count."""

    @property
    def read(self) -> int:
        return self.created + self.updated + self.unchanged + self.rejected_count

    def add(self, outcome: Status | Rejection) -> None:
        if not isinstance(outcome, Rejection):
            setattr(self, outcome, getattr(self, outcome) + 1)
            return
        self.rejected_count += 1
        if len(self.rejected) < REJECTIONS_KEPT:
            self.rejected.append(outcome)

    def note(self, notice: Notice) -> None:
        """Add a notice to those with the same message."""
        if known := self.notices.get(notice.message):
            self.notices[notice.message] = known._replace(times=known.times + notice.times)
        elif len(self.notices) < NOTICES_KEPT:
            self.notices[notice.message] = notice

    def to_json(self) -> ReportJson:
        return {
            "read": self.read,
            "created": self.created,
            "updated": self.updated,
            "unchanged": self.unchanged,
            "rejected": [rejection.to_json() for rejection in self.rejected],
        }

    @property
    def left_out(self) -> list[NoticeJson]:
        """The notices as JSON, in the order in which they first came up."""
        return [
            {"message": each.message, "count": each.times, "line": each.line, "file": each.file}
            for each in self.notices.values()
        ]

    def __str__(self) -> str:
        return (
            f"{self.read:,} read: {self.created:,} created, {self.updated:,} updated, "
            f"{self.unchanged:,} unchanged, {self.rejected_count:,} rejected"
        )


@dataclass(frozen=True, slots=True)
class CheckedRow:
    raw: RawRow
    data: RecordIn


type Checked = CheckedRow | Rejection

_MAKE_KEYS = """
DROP TABLE IF EXISTS pg_temp.import_keys;
CREATE TEMP TABLE import_keys (key bytea PRIMARY KEY, content bytea NOT NULL, line bigint NOT NULL)
"""
# A statement does not see the rows that it inserts itself, so they are added from `claimed`.
_CLAIM_KEYS = """
WITH given AS (
    SELECT *
      FROM unnest(%s::bytea[], %s::bytea[], %s::bigint[]) WITH ORDINALITY AS g(key, content, line, place)
), claimed AS (
    INSERT INTO pg_temp.import_keys SELECT key, content, line FROM given ORDER BY place
    ON CONFLICT DO NOTHING RETURNING key, content, line
)
SELECT g.place - 1, first.line
  FROM given g
  JOIN (SELECT * FROM pg_temp.import_keys UNION ALL SELECT * FROM claimed) AS first USING (key)
 WHERE first.content <> g.content
"""


class GivenKeys:
    """The keys of an import's rows so far, kept in a temporary table.

    The first row with a key counts, however far away the next one is. If the last one did, importing again
    would change the record to the first row and back. A later row with the same content is allowed.
    """

    def __init__(self) -> None:
        execute(_MAKE_KEYS)

    def close(self) -> None:
        execute("DROP TABLE pg_temp.import_keys")

    def reject_repeats(self, batch: Sequence[Checked]) -> list[Checked]:
        """Return the batch with a rejection in place of each row that repeats a key with other content.

        Rows without an external id are skipped: their key comes from their content, so nothing can be lost.
        """
        keyed = [
            (place, row)
            for place, row in enumerate(batch)
            if isinstance(row, CheckedRow) and row.raw.fields.get("external_id")
        ]
        keys = [_digest([row.raw.file, row.data.source, row.data.external_id]) for _, row in keyed]
        contents = [_digest(row.data.model_dump(mode="json")) for _, row in keyed]
        checked = list(batch)
        lines = [row.raw.line for _, row in keyed]
        for number, line in fetch_all(_CLAIM_KEYS, [keys, contents, lines]):
            place, row = keyed[number]
            problem = f"has the same source and external_id as line {line}, which was imported"
            checked[place] = _reject(row.raw, "external_id", problem)
        return checked


def _digest(value: object) -> bytes:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=16).digest()


def ensure_space(*, team: Team, slug: str, actor: str) -> Space:
    """Return the team's space with this slug, creating it if it is missing.

    Raises:
        ValidationError: the slug cannot name a space.
    """
    if space := Space.objects.filter(team=team, slug=slug).first():
        return space
    name = slug.replace("-", " ").replace("_", " ").strip().capitalize()
    data = SpaceIn(slug=slug, name=name or slug)
    try:
        return create_space(team=team, data=data, actor=actor)
    except Conflict:
        return Space.objects.get(team=team, slug=slug)


def import_rows(
    *,
    space: Space,
    rows: Iterable[Found],
    actor: str,
    report: ImportReport,
    on_batch: Callable[[ImportReport], None] | None = None,
) -> None:
    """Write the rows in batches and add their results to the report."""
    keys = GivenKeys()
    for batch in _batches(rows, report):
        checked = keys.reject_repeats(batch)
        runs = _runs(row for row in checked if isinstance(row, CheckedRow))
        written = iter([result for run in runs for result in _write(space, run, actor)])
        for row in checked:
            report.add(row if isinstance(row, Rejection) else next(written))
        if on_batch is not None:
            on_batch(report)
    keys.close()


def _batches(rows: Iterable[Found], report: ImportReport) -> Iterator[list[Checked]]:
    """Yield batches of checked rows. Rejected ones stay in their place, so that reports are in order."""
    batch: list[Checked] = []
    size = 0
    for row in rows:
        if isinstance(row, Notice):
            report.note(row)
            continue
        batch.append(row if isinstance(row, Rejection) else check_row(row, report))
        size += row.size if isinstance(row, RawRow) else 0
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _runs(rows: Iterable[CheckedRow]) -> Iterator[list[CheckedRow]]:
    """Split a batch where a row has the key of an earlier one, of another file, with other content.

    Each file updates the records of those before it, as if it were imported alone.
    """
    run: list[CheckedRow] = []
    seen: dict[tuple[str, str], RecordIn] = {}
    for row in rows:
        key = (row.data.source, row.data.external_id)
        if seen.setdefault(key, row.data) != row.data:
            yield run
            run, seen = [], {key: row.data}
        run.append(row)
    yield run


def _write(space: Space, batch: list[CheckedRow], actor: str) -> list[Status | Rejection]:
    """Write a batch and return each row's outcome.

    If the database refuses the batch, halve it until the faulty row is alone.
    """
    if not batch:
        return []
    try:
        results = upsert_records(space=space, rows=[row.data for row in batch], actor=actor)
    except DataError as error:
        if len(batch) == 1:
            return [_reject(batch[0].raw, "row", f"the database rejected it: {error}")]
        middle = len(batch) // 2
        return _write(space, batch[:middle], actor) + _write(space, batch[middle:], actor)
    return [result.status for result in results]


def check_row(row: RawRow, report: ImportReport) -> CheckedRow | Rejection:
    """Validate a row and give it an identity.

    Null means not given. Unknown fields move to the metadata, and their names are noted if the row is valid.
    """
    fields = {name: value for name, value in row.fields.items() if value is not None}
    unknown = [name for name in fields if name not in RECORD_FIELDS]
    clash = _move_to_metadata(fields, unknown)
    if clash:
        return _reject(row, clash, "is given twice: as a field and inside metadata")
    try:
        data = RecordIn.model_validate(fields)
    except ValidationError as error:
        problems = field_problems(error)
        if spared := _spare(row, fields, problems, report):
            return check_row(spared, report)
        first, rest = problems[0], problems[1:]
        also = [f"{problem.field}: {_explain(problem.message)}" for problem in rest[:5]]
        return _reject(row, first.field, "; ".join([_explain(first.message), *also]))
    names = report.kept_in_metadata
    names.update(name[:NAME_CHARS] for name in unknown[: max(0, NAMES_NOTED - len(names))])
    if not data.external_id:
        data.external_id = identify_content(data)
    return CheckedRow(row, data)


def _spare(
    row: RawRow, fields: dict[str, object], problems: Sequence[FieldProblem], report: ImportReport
) -> RawRow | None:
    """Return the row with its unusable spare fields in the metadata, None if another field is at fault.

    Metadata that cannot be stored is left out.
    """
    faults = {problem.field.split(".")[0]: problem.message for problem in problems}
    if not faults.keys() <= row.spare:
        return None
    kept = {name: value for name, value in fields.items() if name not in faults}
    metadata = {} if "metadata" in faults else kept.get("metadata", {})
    moved = {name: fields[name] for name in faults if name != "metadata"}
    for name, message in faults.items():
        where = "left out" if name == "metadata" else "kept in the metadata"
        report.note(Notice(row.line, f"{name} was {where}: it {_explain(message)}", row.file))
    assert isinstance(metadata, dict)
    kept["metadata"] = metadata | moved
    return replace(row, fields=kept, spare=row.spare - faults.keys() | {"metadata"} if moved else frozenset())


def identify_content(data: RecordIn) -> str:
    """Return an id made from the row's content, so that a row without an id is recognised on re-import.

    Two rows with exactly the same content are therefore one record.
    """
    said = json.dumps(data.model_dump(exclude_defaults=True), sort_keys=True, default=str)
    return f"sha256:{hashlib.sha256(said.encode()).hexdigest()[:32]}"


def _move_to_metadata(fields: dict[str, object], names: list[str]) -> str:
    """Move these fields into the metadata. Return the name of a field that is already there, or ""."""
    metadata = fields.get("metadata", {})
    if not names or not isinstance(metadata, dict):
        return ""
    if clash := next((name for name in names if name in metadata), ""):
        return clash
    fields["metadata"] = metadata | {name: fields.pop(name) for name in names}
    return ""


def _explain(message: str) -> str:
    # Bytes that are not UTF-8 are decoded to lone surrogates; see lines.decode.
    return "contains text that is not UTF-8" if "lone surrogate" in message else message


def _reject(row: RawRow, name: str, error: str) -> Rejection:
    return Rejection(row.line, name, cut(error, ERROR_MAX), row.file)
