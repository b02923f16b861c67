"""Logs what the engine was given for an assembly, so that the same decision can be computed again.

It holds ids, versions and numbers, never a record's text, so a purge has nothing to erase here. The texts of
a version come from `spaces.versions`. Settings, sizes, question and time are logged elsewhere.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic_core import to_json

from contextopt.assemblies.candidates import Candidates
from contextopt.engine.details import Query
from contextopt.engine.placement.blocks import NOTHING, Sight
from contextopt.engine.ranking import MAX_PART, NOT_RELEVANT, PART_SCALE, Relevance
from contextopt.engine.values import ENGINE_VERSION, FilterCounts, SpaceContext

FORMAT = 1
"""The first byte. Raise it when the format below changes, and keep reading the older ones."""
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
    candidates reached. `is_asked` means that a question ranked them, `is_relevant` that some record seemed
    to be about it. The records are in the order of their ids. One that changed while the candidates were read
    appears twice. `space` comes without them. `sight` is what earlier blocks of the conversation show of the
    candidates.
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
        # Most have nothing in sight, so the key is left out.
        **({"sight": sight.to_json(record.id for record in found.records)} if sight.headers else {}),
    }
    body = b"".join(map(_pack_column, _columns(keys, marks, found.query)))
    return bytes([FORMAT]) + zlib.compress(to_json(head) + b"\n" + body, COMPRESSION)


def unpack_givens(packed: bytes) -> Givens:
    """Read what `pack_givens` returned. Parts of relevance that no longer exist are left out.

    Raises:
        ValueError: the format is unknown.
    """
    if packed[0] != FORMAT:
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
    )


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
