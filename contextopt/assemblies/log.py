"""Logs contexts of spaces: a narrow row, its payload, and what the engine was given.

From the last, the same decision can be computed again. It holds ids, versions and numbers, never a record's
text, so a purge has nothing to erase there. The texts of a version come from `spaces.versions`. Settings,
sizes, question and time are in row and payload.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, astuple, dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import structlog
from psycopg.types.json import Jsonb
from pydantic_core import to_json

from contextopt import telemetry
from contextopt.assemblies.candidates import Candidates
from contextopt.assemblies.figures import STORED
from contextopt.assemblies.models import NO_QUESTION_KEPT, AssemblyPayload, Kind, pack_entries
from contextopt.assemblies.results import AssemblyResult
from contextopt.engine.details import Query
from contextopt.engine.placement.blocks import NOTHING, Sight
from contextopt.engine.placement.choice import Placed
from contextopt.engine.ranking import MAX_PART, NOT_RELEVANT, PART_SCALE, Relevance
from contextopt.engine.settings import SCORED_STAGE
from contextopt.engine.text.promptparts import Span
from contextopt.engine.values import ENGINE_VERSION, FilterCounts, SpaceContext, warnings_json
from contextopt.errors import NotFound
from contextopt.locks import HOLD_SPACE
from contextopt.sql import fetch_column, fetch_one, id_array

log = structlog.get_logger(__name__)

ASSEMBLY_COLUMNS = (
    "id", "team_id", "space_id", "config_id", "kind", "stage", "phase", "model", "conversation", "actor",
    "as_of", "created_at", "is_demo", *(figure.name for figure in STORED),
)  # fmt: skip
PAYLOAD_COLUMNS = ("text", "baseline_text", "ledger", "config", "request", "record_ids", "givens")
_PLACEHOLDERS = {
    "id": "coalesce(%(id)s::bigint, nextval('contextopt_assembly_id_seq'))",
    "created_at": "coalesce(%(created_at)s, now())",
    "record_ids": "%(record_ids)s::bigint[]",
    "warning_codes": "%(warning_codes)s::varchar[]",
}


def _placeholders(columns: tuple[str, ...]) -> str:
    return ", ".join(_PLACEHOLDERS.get(name, f"%({name})s") for name in columns)


# Values are passed by column name. One statement takes half the time of two through the ORM.
_STORE_SQL = f"""
WITH held AS MATERIALIZED ({HOLD_SPACE}
), assembly AS (
    INSERT INTO contextopt_assembly ({", ".join(ASSEMBLY_COLUMNS)})
    SELECT {_placeholders(ASSEMBLY_COLUMNS)} FROM held
    RETURNING id
)
INSERT INTO contextopt_assemblypayload (assembly_id, {", ".join(PAYLOAD_COLUMNS)})
SELECT assembly.id, {_placeholders(PAYLOAD_COLUMNS)}
  FROM assembly
RETURNING assembly_id
"""


def draw_ids(number: int) -> list[int]:
    """Reserve ids for assemblies that are logged later. An unused one leaves a gap."""
    statement = "SELECT nextval('contextopt_assembly_id_seq') FROM generate_series(1, %s)"
    return fetch_column(statement, [number])


def log_assembly(
    result: AssemblyResult,
    *,
    is_demo: bool = False,
    created_at: datetime | None = None,
    drawn_id: int | None = None,
    keeps_question: bool = True,
    is_sent: bool = True,
) -> AssemblyResult:
    """Write the narrow row and its payload in one statement; return the result with its id.

    The id may be drawn beforehand, if the caller has to name the assembly before it is decided. Without
    `keeps_question`, it cannot be replayed. Without `is_sent`, it counts neither as a saving nor as a cost.

    Raises:
        NotFound: the space was deleted in the meantime.
    """
    values = {
        "id": drawn_id,
        "created_at": created_at,
        "is_demo": is_demo,
        "is_sent": is_sent and not result.asked.request.awaits_delivery,
        "awaits_delivery": result.asked.request.awaits_delivery,
        **_assembly_values(result),
        **_payload_values(result, keeps_question=keeps_question),
    }
    stored = fetch_one(_STORE_SQL, values)
    if stored is None:
        raise NotFound(f"The space {result.asked.space.slug!r} was deleted in the meantime.")
    logged = replace(result, id=stored[0])
    _log_events(logged)
    if telemetry.is_on() and not is_demo:
        attributes = {telemetry.ASSEMBLY_ID: stored[0], **_attributes(logged)}
        telemetry.record_assembly(attributes=attributes, ms=logged.assembly_ms)
    return logged


def _attributes(result: AssemblyResult) -> telemetry.Attributes:
    """Return the attributes of the assembly's span. Texts and questions are not among them."""
    asked, stats = result.asked, result.stats
    saved = stats.tokens_saved
    return {
        telemetry.TEAM_ID: asked.team_id,
        telemetry.SPACE: asked.space.slug,
        telemetry.STAGE: asked.config.stage,
        telemetry.CONTEXT_TOKENS: stats.tokens_used,
        telemetry.TOKENS_AVAILABLE: stats.tokens_available,
        telemetry.RECORDS_INCLUDED: stats.records_included,
        telemetry.RECORDS_FILTERED: stats.records_filtered,
        telemetry.TRUNCATED: stats.truncated,
        telemetry.WARNINGS: [warning.code for warning in result.warnings],
        **({} if saved is None else {telemetry.TOKENS_SAVED: saved}),
    }


def _assembly_values(result: AssemblyResult) -> dict[str, Any]:
    asked, request = result.asked, result.asked.request
    measured = {figure.name: figure.measure(result) for figure in STORED if figure.measure}
    sizes = result.placed.prompt_sizes.figures()
    return {
        "team_id": asked.team_id,
        "space_id": asked.space.id,
        "config_id": asked.space.config_id,
        "kind": Kind.SPACE.value,
        "stage": asked.config.stage,
        "phase": "",
        "model": request.model,
        "conversation": request.conversation,
        "actor": asked.actor,
        "as_of": asked.as_of,
        # Empty if the request asks for no placement, and unknown outside of a conversation.
        "placement": result.placed.placement if request.placement or request.conversation else "",
        **(sizes if request.is_in_conversation else dict.fromkeys(sizes)),
        **measured,
    }


def _prompt_json(placed: Placed) -> dict[str, Any]:
    """Return the other inputs of the prompt's sizes, so that the sizes can be verified."""
    before, last = placed.conversation, placed.conversation.last
    return {
        "history_tokens": before.history_tokens,
        "last": last.block_id if last else None,
        "idle_seconds": before.idle_seconds,
        "minimum_tokens": placed.prices.minimum_tokens,
        "lifetime_seconds": placed.prices.lifetime_seconds,
    }


def _payload_values(result: AssemblyResult, *, keeps_question: bool) -> dict[str, Any]:
    asked, placed, outcome = result.asked, result.placed, result.outcome
    named = {entry.id for entry in outcome.ledger} | set(outcome.baseline_order)
    question_tokens = placed.conversation.question_tokens
    ledger = {
        "candidates": pack_entries(result.entries),
        "order": list(outcome.order),
        "baseline_order": list(outcome.baseline_order),
        "counts": dict(outcome.stats.dropped_by_reason),
        # Most have no earlier blocks and no warnings, so these keys are left out.
        **({"question_tokens": question_tokens} if question_tokens else {}),
        **({} if outcome.fixed_tokens is None else {"fixed_tokens": outcome.fixed_tokens}),
        **({"carried": [block.id for block in placed.kept]} if placed.kept else {}),
        **({"prompt": _prompt_json(placed)} if asked.request.is_in_conversation else {}),
        **({"warnings": warnings_json(result.warnings)} if result.warnings else {}),
        **({"token_factors": factors} if (factors := asked.tokenizer.factors_json()) else {}),
    }
    config = {**asked.config.to_json(), "version": asked.space.config_version, "overrides": asked.overrides}
    # Only the sizes of the caller's system and history may be kept.
    left_out = {"system", "history"} | (set() if keeps_question else {"query"})
    request = asked.request.model_dump(mode="json", exclude_unset=True, exclude=left_out)
    if not keeps_question:
        request[NO_QUESTION_KEPT] = True
    return {
        "text": outcome.text,
        "baseline_text": outcome.baseline_text,
        "ledger": _jsonb(ledger),
        "config": _jsonb(config),
        "request": _jsonb(request | asked.sizes.to_json()),
        "record_ids": id_array(sorted(named)),
        "givens": pack_givens(asked.space.shown, result.found, placed.sight),
    }


def _jsonb(value: dict[str, Any]) -> Jsonb:
    # The standard library takes five times as long: a twentieth of a whole assembly at stage 4.
    return Jsonb(value, dumps=to_json)


def _log_events(result: AssemblyResult) -> None:
    stats, outcome, stage = result.stats, result.outcome, result.asked.config.stage
    bound = log.bind(assembly_id=result.id, space=result.asked.space.slug, stage=stage)
    bound.info(
        "context_filtering_complete",
        filtered=stats.records_filtered,
        outside_window=stats.outside_window,
        deleted=stats.deleted,
    )
    scored = stats.records_filtered if stage >= SCORED_STAGE else 0
    bound.info("records_scored_by_relevance", scored=scored)
    bound.info("token_budget_allocated", **asdict(outcome.allocation))
    bound.info(
        "context_truncation_complete",
        included=stats.records_included,
        dropped=stats.records_dropped,
        reasons=stats.dropped_by_reason,
    )
    bound.info(
        "context_assembled",
        tokens_used=stats.tokens_used,
        tokens_available=stats.tokens_available,
        tokens_saved=stats.tokens_saved,
        truncated=stats.truncated,
        warnings=[warning.code for warning in result.warnings],
        assembly_ms=round(result.assembly_ms, 3),
        sha256=outcome.certificate.sha256,
        certificate=outcome.certificate.statement,
    )


GIVENS_FORMAT = 1
"""The first byte of what the engine was given. Raise it when the format below changes, and keep reading the
older ones.
"""
# A higher level takes longer and saves nothing, since most bytes are the last digits of scores.
COMPRESSION = 1

_CANDIDATE, _BASELINE, _DETAIL = 1, 2, 4
_VIEWS_SHIFT = 3
_ABSENT = -MAX_PART * PART_SCALE - 1
"""Stands for a part that is None. Every other part is greater."""
# A column's least value, and the bytes needed for the largest difference from it.
_COLUMN = struct.Struct("<qB")

type Column = npt.NDArray[np.int64]
# A record's id, version and views.
type Key = tuple[int, int, int]


class GivenRecord(NamedTuple):
    """A record that the engine was given: as a candidate, as one of the last by date, or as both.

    `views` is at most 10, since more do not count. With `has_detail` the engine had its text, else only its
    summary.
    """

    id: int
    version: int
    views: int
    is_candidate: bool
    is_baseline: bool
    has_detail: bool
    relevance: Relevance = NOT_RELEVANT


@dataclass(frozen=True, slots=True)
class Givens:
    """Everything the engine was given that the log does not hold elsewhere, except the records' texts.

    `encoder` names the model of the question's vector; it is empty without one. `reach` is how far the
    candidates reached. `passages` are the parts of the question that were looked up, none if all of it was.
    `is_asked` means that a question ranked them, `is_relevant` that some record seemed to be about it. The
    records are in the order of their ids. One that changed while the candidates were read appears twice.
    `space` comes without them. `sight` is what earlier blocks of the conversation show of the candidates.
    """

    engine_version: int
    encoder: str
    reach: int
    space: SpaceContext
    counts: FilterCounts
    is_asked: bool
    is_relevant: bool
    records: tuple[GivenRecord, ...]
    sight: Sight = NOTHING
    passages: tuple[Span, ...] = ()


def pack_givens(space: SpaceContext, found: Candidates, sight: Sight = NOTHING) -> bytes:
    """Return the engine's inputs in a compact binary format.

    Parts of relevance are stored in whole millionths, as the engine rounds them.
    """
    marks = _marks(found)
    keys = sorted(marks)
    head = {
        "engine": ENGINE_VERSION,
        "encoder": found.encoder,
        "reach": found.reach,
        "space": [space.name, space.description, space.categories],
        "counts": astuple(found.counts),
        "records": len(keys),
        "relevant": found.query is None or found.query.is_relevant,
        "parts": None if found.query is None else Relevance._fields,
        # Most have no passages and nothing in sight, so these keys are left out.
        **({"passages": found.passages} if found.passages else {}),
        **({"sight": sight.to_json(record.id for record in found.records)} if sight.headers else {}),
    }
    body = b"".join(map(_pack_column, _columns(keys, marks, found.query)))
    return bytes([GIVENS_FORMAT]) + zlib.compress(to_json(head) + b"\n" + body, COMPRESSION)


def unpack_givens(packed: bytes) -> Givens:
    """Read what `pack_givens` returned. Parts of relevance that no longer exist are left out.

    Raises:
        ValueError: the format is unknown.
    """
    if packed[0] != GIVENS_FORMAT:
        raise ValueError(f"format {packed[0]} of the logged inputs is unknown")
    line, _, body = zlib.decompress(packed[1:]).partition(b"\n")
    head = json.loads(line)
    name, description, categories = head["space"]
    return Givens(
        engine_version=head["engine"],
        encoder=head["encoder"],
        reach=head["reach"],
        space=SpaceContext(name, description, tuple(categories)),
        counts=FilterCounts(*head["counts"]),
        is_asked=head["parts"] is not None,
        is_relevant=head["relevant"],
        records=tuple(_read_records(body, head["records"], head["parts"] or ())),
        sight=Sight.from_json(head["sight"]) if "sight" in head else NOTHING,
        passages=tuple(Span(*each) for each in head.get("passages", ())),
    )


def searched_passages(payload: AssemblyPayload) -> list[str]:
    """Return the passages of a logged question that the space was searched for, the best first.

    There are none if it was searched for the whole question, or if the question was not kept.
    """
    question = str(payload.request.get("query") or "").strip()
    if not question or payload.givens is None:
        return []
    return [question[start:end] for start, end in unpack_givens(bytes(payload.givens)).passages]


def _marks(found: Candidates) -> dict[Key, int]:
    """Return what each record was given as."""
    details = found.query.details if found.query else {}
    marks: dict[Key, int] = {}
    for records, mark in ((found.baseline, _BASELINE), (found.records, _CANDIDATE)):
        for record in records:
            views = record.view_count
            key = record.id, record.version, views if views < MAX_PART else MAX_PART
            has_detail = mark == _CANDIDATE and record.id in details
            marks[key] = marks.get(key, 0) | mark | (_DETAIL if has_detail else 0)
    return marks


def _columns(keys: list[Key], marks: dict[Key, int], query: Query | None) -> Iterator[Column]:
    # numpy reads one long list faster than many tuples.
    ids, versions, views = np.array(list(chain(*keys)), np.int64).reshape(-1, 3).T
    yield np.concatenate([ids[:1], ids[1:] - ids[:-1]])
    yield versions
    yield views << _VIEWS_SHIFT | np.array([marks[key] for key in keys], np.int64)
    if query is None:
        return
    relevant = [
        query.relevant.get(key[0], NOT_RELEVANT) if marks[key] & _CANDIDATE else NOT_RELEVANT for key in keys
    ]
    # None becomes NaN.
    parts = np.array(list(chain(*relevant)), np.float64).reshape(-1, len(Relevance._fields))
    yield from np.where(np.isnan(parts), _ABSENT, np.rint(parts * PART_SCALE)).astype(np.int64).T


def _read_records(body: bytes, count: int, parts: Iterable[str]) -> Iterator[GivenRecord]:
    columns = list(_read_columns(body, count))
    ids, versions, marks = np.cumsum(columns[0]).tolist(), columns[1].tolist(), columns[2].tolist()
    named = {name: column.tolist() for name, column in zip(parts, columns[3:], strict=True)}
    known = {name: named[name] for name in Relevance._fields if name in named}
    for at, (record_id, version, mark) in enumerate(zip(ids, versions, marks, strict=True)):
        relevance: dict[str, Any] = {name: _part(column[at]) for name, column in known.items()}
        yield GivenRecord(
            record_id,
            version,
            mark >> _VIEWS_SHIFT,
            bool(mark & _CANDIDATE),
            bool(mark & _BASELINE),
            bool(mark & _DETAIL),
            Relevance(**relevance),
        )


def _part(whole: int) -> float | None:
    return None if whole == _ABSENT else whole / PART_SCALE


def _pack_column(column: Column) -> bytes:
    """Return the differences from the least value: first all lowest bytes, then all next ones, and so on.

    High bytes are similar, so they compress well together.
    """
    least = int(column.min()) if column.size else 0
    above = np.ascontiguousarray(column - least).astype("<i8", copy=False)
    width = (int(above.max(initial=0)).bit_length() + 7) // 8
    return _COLUMN.pack(least, width) + above.view(np.uint8).reshape(-1, 8)[:, :width].T.tobytes()


def _read_columns(body: bytes, count: int) -> Iterator[Column]:
    at = 0
    while at < len(body):
        least, width = _COLUMN.unpack_from(body, at)
        at += _COLUMN.size
        planes = np.frombuffer(body, np.uint8, count * width, at).reshape(width, count)
        at += count * width
        above = np.zeros((count, 8), np.uint8)
        above[:, :width] = planes.T
        yield above.view("<i8").reshape(count) + least
