"""Matches of a question, of its days and of what it asks about, and their neighbours in threads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from contextopt.engine.queryanalysis import Mentions, subject_of, without_framing, without_names
from contextopt.engine.relevance import NEIGHBOUR_REACH
from contextopt.engine.values import FilterCounts
from contextopt.limits import DATE_MIN
from contextopt.search.hybrid import Leads, PreparedQuery, Target, look_up, look_up_meaning, with_meaning_of
from contextopt.search.registry import SearchFilters
from contextopt.search.words import read_lexemes
from contextopt.sql import fetch_all, id_array

DATED_LEADS = 30
"""Look up this many records from the days that a question names."""


def look_up_dated(
    target: Target, asked: PreparedQuery, mentions: Mentions | None, limit: int, counts: FilterCounts
) -> Leads:
    """Return the best of all records in the window, and the best of the days that the question names."""
    leads = look_up(target, asked, limit=limit, passing=counts.filtered)
    days = mentions and mentions.range()
    if not days:
        return leads
    window = target.filters
    first = max(filter(None, (days.start, window.date_from, DATE_MIN)))
    last = min(filter(None, (days.end, window.date_to)))
    if first > last:
        return leads
    within = replace(target, filters=SearchFilters(date_from=first, date_to=last))
    return _join(leads, look_up(within, asked, limit=DATED_LEADS))


def _join(leads: Leads, more: Leads) -> Leads:
    """Return the leads with those of another look-up for the same question."""
    return replace(
        leads, lexical={**leads.lexical, **more.lexical}, cosines={**leads.cosines, **more.cosines}
    )


def _named(leads: Leads, people: Mapping[int, tuple[str, ...]]) -> list[str]:
    """Return the names of the leads' authors that may occur in the question."""
    question = leads.query.text.lower()
    return sorted({name for row in leads.ids for name in people.get(row, ()) if name.lower() in question})


def about_subject(
    leads: Leads, people: Mapping[int, tuple[str, ...]], limit: int, counts: FilterCounts
) -> Leads:
    """Return the best matches of the question's subject, by words and by meaning.

    If the question has nothing but its subject, return the leads with more of its matches.
    """
    question, names = without_framing(leads.query.text), _named(leads, people)
    subject = subject_of(question)
    if subject == question:
        return _join(leads, look_up(leads.target, leads.query, limit=limit, passing=counts.filtered))
    worded = replace(leads.query, lexemes=read_lexemes(subject))
    query = with_meaning_of(worded, without_names(subject, names))
    return look_up(leads.target, query, limit=limit, passing=counts.filtered)


def without_authors(
    leads: Leads, people: Mapping[int, tuple[str, ...]], limit: int, counts: FilterCounts
) -> Leads:
    """Return the leads with the best matches of the question's meaning without the names of their authors.

    A name already counts in the part `who`. If it stayed, everything that a person says would seem similar to
    every question with their name.
    """
    question, names = without_framing(leads.query.text), _named(leads, people)
    if not names:
        return leads
    query = with_meaning_of(leads.query, without_names(question, names))
    return (
        leads if query is leads.query else look_up_meaning(leads, query, limit=limit, passing=counts.filtered)
    )


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
