"""Reads the neighbours of records in their threads."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from contextopt.engine.prompts.relevance import NEIGHBOUR_REACH
from contextopt.sql import fetch_all, id_array

# Uses the same index twice, once in each direction.
_NEIGHBOURS_SQL = f"""
WITH hit AS (
    SELECT id, thread, coalesce(position, 0) AS place, date FROM contextopt_record
     WHERE id = ANY(%(ids)s::bigint[]) AND space_id = %(space)s AND thread <> '' AND deleted_at IS NULL
)
SELECT h.id,
       ARRAY(SELECT r.id FROM contextopt_record r
              WHERE r.space_id = %(space)s AND r.thread = h.thread AND r.thread <> ''
                AND r.deleted_at IS NULL
                AND (coalesce(r.position, 0), r.date, r.id) < (h.place, h.date, h.id)
              ORDER BY coalesce(r.position, 0) DESC, r.date DESC, r.id DESC LIMIT {NEIGHBOUR_REACH}),
       ARRAY(SELECT r.id FROM contextopt_record r
              WHERE r.space_id = %(space)s AND r.thread = h.thread AND r.thread <> ''
                AND r.deleted_at IS NULL
                AND (coalesce(r.position, 0), r.date, r.id) > (h.place, h.date, h.id)
              ORDER BY coalesce(r.position, 0), r.date, r.id LIMIT {NEIGHBOUR_REACH})
  FROM hit h
"""


def read_threads(space_id: int, hits: Sequence[int]) -> list[list[int]]:
    """Return the hits with their neighbours, as runs of ids in thread order."""
    if not hits:
        return []
    rows = fetch_all(_NEIGHBOURS_SQL, {"ids": id_array(hits), "space": space_id})
    return join_runs([*reversed(before), row_id, *after] for row_id, before, after in rows)


def join_runs(runs: Iterable[Sequence[int]]) -> list[list[int]]:
    """Join overlapping runs. Each run is a gapless part of an order in which every id occurs once."""
    follows: dict[int, int] = {}
    members: set[int] = set()
    for run in runs:
        members.update(run)
        follows.update(pairwise(run))
    joined = []
    for start in sorted(members - set(follows.values())):
        run = [start]
        while run[-1] in follows:
            run.append(follows[run[-1]])
        joined.append(run)
    return joined
