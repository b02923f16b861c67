"""Reads records as they were at given versions.

A revision keeps the state of one version, and the record's own row is the current version.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from contextopt.spaces.records import STATE
from contextopt.sql import fetch_all, fetch_rows, id_array


@dataclass(frozen=True, slots=True)
class RecordVersion:
    """A record's state at one version. If the record was purged since, its texts are erased here too.

    `language` is empty if it was not kept. `view_count` is from the end of the version.
    """

    id: int
    version: int
    source: str
    external_id: str
    is_purged: bool
    title: str
    type: str
    date: datetime
    tags: list[str]
    notes: str
    pinned: bool
    thread: str
    position: int | None
    metadata: dict[str, Any]
    view_count: int
    deleted_at: datetime | None
    language: str


_STATE = ", ".join(f'"{name}"' for name in STATE)
_VERSIONS_SQL = f"""
SELECT r.id, w.version, r.source, r.external_id, r.purged_at IS NOT NULL AS is_purged, s.*
  FROM unnest(%(ids)s::bigint[], %(versions)s::int[]) AS w(id, version)
  JOIN contextopt_record r ON r.id = w.id AND r.space_id = %(space)s
  JOIN LATERAL (
       SELECT {_STATE} FROM contextopt_record WHERE id = w.id AND version = w.version
        UNION ALL
       SELECT {_STATE} FROM contextopt_recordrevision WHERE record_id = w.id AND version = w.version
       ) AS s ON true
"""


_CHANGED_SQL = """
SELECT DISTINCT ON (v.record_id) v.record_id, v.version
  FROM contextopt_recordrevision v JOIN contextopt_record r ON r.id = v.record_id
 WHERE v.changed_at > %(moment)s AND v.version IS NOT NULL
   AND r.space_id = %(space)s AND r.created_at <= %(moment)s
 ORDER BY v.record_id, v.number LIMIT %(limit)s
"""


def read_changed(space_id: int, moment: datetime, *, limit: int) -> list[RecordVersion]:
    """Return the records that were changed after the moment, each as it was then."""
    changed = fetch_all(_CHANGED_SQL, {"space": space_id, "moment": moment, "limit": limit})
    return list(read_versions(space_id, changed).values())


def read_versions(space_id: int, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], RecordVersion]:
    """Return the records of the space at the given versions, by id and version. Unknown pairs are missing."""
    pairs = sorted(set(wanted))
    parameters = {
        "space": space_id,
        "ids": id_array(record_id for record_id, _ in pairs),
        "versions": id_array(version for _, version in pairs),
    }
    found = fetch_rows(_read_row, _VERSIONS_SQL, parameters)
    return {(row.id, row.version): row for row in found}


def _read_row(*, metadata: str, **columns: Any) -> RecordVersion:
    return RecordVersion(metadata=json.loads(metadata), **columns)
