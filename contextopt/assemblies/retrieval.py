"""Candidates for a question: the best by score, by words and by meaning, and their thread neighbours.

The work is bounded whatever the size of the space: search returns only the best, threads only the nearest
neighbours, and texts are read only for records that could enter the context.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple
from zoneinfo import ZoneInfo

from contextopt.assemblies.candidates import (
    Candidates,
    PreparedRequest,
    load_candidates,
    most_that_fit,
    read_summary,
    read_threads,
)
from contextopt.assemblies.shortage import embedding_warnings, names_unknown, nothing_relevant
from contextopt.engine.assembly import LEDGER_DROPPED
from contextopt.engine.details import TYPE_TOKENS, Query, RecordDetail
from contextopt.engine.duplicates import numbers_in
from contextopt.engine.queryanalysis import (
    Mentions,
    Place,
    Topics,
    add_mentions,
    names_in,
    subject_of,
    without_framing,
    without_names,
)
from contextopt.engine.ranking import (
    TOPIC_WEIGHT,
    Match,
    Relevance,
    Scored,
    best_relevances,
    own_relevances,
    rank_by_query,
    rate_neighbours,
    relevances,
)
from contextopt.engine.rendering import EXCERPT_CHARS, MESSAGE
from contextopt.engine.settings import ContextConfig
from contextopt.engine.text.entities import words_of
from contextopt.engine.text.lexical import terms
from contextopt.engine.values import DateRange, FilterCounts, RecordSummary
from contextopt.limits import DATE_MIN
from contextopt.search.embedders.current import LEAST_COSINES, LEAST_MATCHES, USUAL_SIMILARITIES
from contextopt.search.hybrid import (
    Leads,
    Passage,
    Question,
    Target,
    best_match,
    look_up,
    look_up_meaning,
    rate,
    with_meaning_of,
)
from contextopt.search.registry import SearchFilters
from contextopt.search.wordcounts import unknown_words
from contextopt.search.words import read_lexemes
from contextopt.spaces.records import SEARCHABLE
from contextopt.sql import fetch_all, id_array, one_snapshot

# Look up this many records from the days that a question names.
DATED_LEADS = 30
# Ask each ranking, by words and by meaning, for about as many records as will fit, within these bounds. On
# dialogues, asking for twice as many found nothing more. The minimum also applies to recency and frequency.
DEPTH_MIN, DEPTH_MAX = 30, 100
# The least number to ask for if there are topics. On meetings, 60 to 80 find more than 50 or 100.
TOPIC_DEPTH = 70
# Never ask the rankings by words and by meaning for more, whatever the reach.
LOOK_UP_MAX = 1_000
# Share of that number of records whose thread neighbours become candidates. On dialogues, neighbours help
# more than a deeper search.
LENDING = 2 / 3
# Few lines with notes are shorter, so the budget bounds how many records can enter.
DETAIL_TOKENS = 12
# Extra texts to read, to replace records that repeat another.
SPARE_DETAILS = 30
# Prose has about this many bytes per token.
BYTES_PER_TOKEN = 4
# Added to the best cosine: these times the share of the question's words in the best record by words, and
# times the share that occurs in the space.
PER_HELD, PER_KNOWN = 0.25, 0.1
# A turn of a long conversation says little by itself, so it is less similar to a question about its topic.
LEAST_IN_TOPIC = 3 / 5
# Search only this many characters of a record for its best passages.
NOTES_READ = 100_000


@one_snapshot()
def load_for_question(asked: PreparedRequest, question: Question, *, reach: int) -> Candidates:
    """Read what stage 5 needs: candidates with their relevance, and the texts of the best.

    `reach` multiplies the number read. A larger one helps if most records repeat each other, or if a large
    budget also has room for records that are merely recent. The question comes prepared, so that no snapshot
    is held while an endpoint embeds it.
    """
    config, now = asked.config, asked.as_of
    base = load_candidates(asked, limit=DEPTH_MIN * reach)
    # About how many records fit, judging by the sizes of the recent and frequent ones.
    fitting = most_that_fit(config, DETAIL_TOKENS)
    if base.records:
        mean_tokens = sum(record.tokens for record in base.records) / len(base.records)
        fitting = min(fitting, int(config.context_share(config.stage) / mean_tokens) + 1)
    depth = min(max(DEPTH_MIN, min(fitting, DEPTH_MAX)) * reach, LOOK_UP_MAX)
    window = DateRange.ending_at(now, config.effective_window_days)
    mentions = Mentions.of(question.text, now, ZoneInfo(asked.space.time_zone))
    recent = {record.id for record in base.records}
    each = [
        _LookUp(asked, passage, mentions, window, base.counts, depth).find(recent)
        for passage in question.passages
    ]
    found = each[0] if len(each) == 1 else _Found.joined(each, config)
    ranked = rank_by_query(found.summaries.values(), found.relevant, now, config)
    most = read_at_most(ranked, config) * reach
    details = _load_details([scored.record for scored in ranked[:most]])
    vector = question.passages[0].vector
    encoder = vector.model if vector else ""
    words, numbers = frozenset(terms(question.text)), numbers_in(question.text)
    warnings = list(embedding_warnings(asked.space.id, question, found.matches))
    sources = {record.source for record in found.summaries.values()}
    # Records in another language may spell a name differently.
    unknown = [] if encoder in LEAST_COSINES else _unknown_names(asked, question.text, found.people | sources)
    is_relevant = found.match >= found.least and not unknown
    if unknown:
        warnings.append(names_unknown(unknown))
    elif not is_relevant:
        outside_window = base.counts.outside_window
        warnings.append(
            nothing_relevant(found.match, found.least, outside_window, config.effective_window_days)
        )
    return replace(
        base,
        records=tuple(scored.record for scored in ranked[: most + LEDGER_DROPPED]),
        query=Query(words, found.relevant, details, is_relevant, numbers, USUAL_SIMILARITIES.get(encoder)),
        passages=question.spans,
        encoder=encoder,
        warnings=tuple(warnings),
        reach=reach,
        is_all=len(ranked) >= base.counts.filtered and len(ranked) <= most,
    )


class _Known(NamedTuple):
    """The candidates by id: their summaries, the estimated tokens of their notes, the names of their authors,
    and their places in threads if they have a position there.
    """

    summaries: dict[int, RecordSummary]
    sizes: dict[int, int]
    people: dict[int, tuple[str, ...]]
    places: dict[int, Place]


class _Found(NamedTuple):
    """The candidates by id: their summaries, matches and relevances. `match` is the best match of all, and
    `least` the least that is enough. `people` are the names of their authors.
    """

    summaries: dict[int, RecordSummary]
    matches: dict[int, Match]
    relevant: dict[int, Relevance]
    match: float
    least: float
    people: frozenset[str]

    @classmethod
    def joined(cls, each: "Sequence[_Found]", config: ContextConfig) -> "_Found":
        """Join what was found for several passages. A record counts by its best one."""
        matches: dict[int, Match] = {}
        for found in each:
            matches |= {
                row: best_match(matches.get(row, match), match) for row, match in found.matches.items()
            }
        return cls(
            {row: record for found in each for row, record in found.summaries.items()},
            matches,
            best_relevances([found.relevant for found in each], config),
            max(found.match for found in each),
            min(found.least for found in each),
            frozenset().union(*(found.people for found in each)),
        )


class _Rated(NamedTuple):
    """The candidates found so far and the leads without filters; the matches of all candidates, their own
    relevances, and the topics among the leads.
    """

    known: _Known
    anywhere: Leads
    matches: dict[int, Match]
    own: dict[int, float]
    topics: Topics

    @classmethod
    def of(cls, leads: Leads, known: _Known, config: ContextConfig) -> "_Rated":
        """Rate all candidates by words and by meaning, without their neighbours."""
        # A pinned record is a candidate regardless of date.
        anywhere = replace(leads, target=replace(leads.target, filters=SearchFilters()))
        # One deleted in the meantime is no candidate.
        rated = rate(anywhere, known.summaries).items()
        matches = {row: match for row, match in rated if row in known.summaries}
        own = own_relevances(relevances(matches), config)
        led = {row: own[row] for row in leads.ids & own.keys()} if config.neighbour_share else {}
        return cls(known, anywhere, matches, own, Topics(led, known.places))


@dataclass(frozen=True, slots=True)
class _LookUp:
    """A passage that a space is searched for. The rankings by words and by meaning return at most `depth`
    records each.
    """

    asked: PreparedRequest
    passage: Passage
    mentions: Mentions
    window: DateRange
    counts: FilterCounts
    depth: int

    def rate_leads(self, further: Set[int]) -> tuple[_Rated, float, float]:
        """Find and rate the leads, and `further` records with them. Return them with their best match, and
        the least match that is enough.

        If authors count, look up again without their names. If there are topics, look up the subject too.
        """
        config, counts = self.asked.config, self.counts
        # If nothing is outside the window, there is no filter, which is faster.
        filters = SearchFilters()
        if counts.outside_window:
            start = None if self.window.start is None else max(self.window.start, DATE_MIN)
            filters = SearchFilters(date_from=start, date_to=self.window.end)
        target = Target(SEARCHABLE, self.asked.space.id, filters)
        dates = self.mentions if config.date_weight else None
        leads = _look_up_dated(target, self.passage, dates, self.depth, counts)
        best_cosine = max(leads.cosines.values(), default=None)
        known = self._load(leads.ids | further, _Known({}, {}, {}, {}))
        if config.who_weight:
            leads = _without_authors(leads, known.people, self.depth, counts)
            known = self._load(leads.ids, known)
        rated = _Rated.of(leads, known, config)
        match = least = 0.0
        encoder = leads.query.vector.model if leads.query.vector else ""
        if encoder in LEAST_MATCHES and best_cosine is not None:
            held_share = leads.terms.held_share(max(leads.lexical.values(), default=0.0))
            by_words = PER_HELD * held_share + PER_KNOWN * leads.terms.known_share
            match, least = best_cosine + by_words, LEAST_MATCHES[encoder]
            if not by_words:
                least = LEAST_COSINES.get(encoder, least)
            least *= LEAST_IN_TOPIC if rated.topics else 1
        if rated.topics:
            people = known.people if config.who_weight else {}
            leads = about_subject(leads, people, max(TOPIC_DEPTH, self.depth), counts)
            rated = _Rated.of(leads, self._load(leads.ids, known), config)
        return rated, match, least

    def find(self, further: Set[int]) -> _Found:
        """Find the candidates: the leads, `further` records, and the neighbours of the best."""
        rated, match, least = self.rate_leads(further)
        threads = read_threads(self.asked.space.id, self._lenders(rated))
        # Most neighbours of a lead may be outside the window, so apply the window before rating.
        known = self._load({record_id for thread in threads for record_id in thread}, rated.known)
        without_rankings = replace(rated.anywhere, lexical={}, cosines={})
        neighbours = rate(without_rankings, known.summaries.keys() - rated.matches.keys())
        matches = rated.matches | {row: match for row, match in neighbours.items() if row in known.summaries}
        relevant = rate_neighbours(relevances(matches), threads, self.asked.config, known.sizes)
        relevant = rated.topics.add(relevant, known.places)
        dates = {record_id: record.date for record_id, record in known.summaries.items()}
        relevant = add_mentions(relevant, self.mentions, dates, known.people)
        people = frozenset(name for names in known.people.values() for name in names)
        return _Found(known.summaries, matches, relevant, match, least, people)

    def _lenders(self, rated: _Rated) -> list[int]:
        """Return the records whose neighbours become candidates: the best by their own match and topic."""
        share, own, places = self.asked.config.neighbour_share, rated.own, rated.known.places
        if not share:
            return []
        parts = rated.topics.parts({row: place for row, place in places.items() if row in own})
        weight = TOPIC_WEIGHT * float(share)
        worth = {row: value + weight * parts.get(row, 0.0) for row, value in own.items()}
        best = sorted((row for row, value in worth.items() if value > 0), key=lambda row: (-worth[row], -row))
        return best[: int(LENDING * self.depth)]

    def _load(self, ids: Set[int], known: _Known) -> _Known:
        """Return what is known with those of the records that are live, and in the window or pinned.

        PostgreSQL knows the length of notes in bytes without reading them, so tokens are estimated from it.
        """
        wanted = sorted(ids - known.summaries.keys())
        if not wanted:
            return known
        rows = fetch_all(
            f"""
            SELECT id, date, view_count, summary, summary_tokens, summary_encoding, pinned, source,
                   external_id, version, octet_length(notes) / {BYTES_PER_TOKEN},
                   CASE WHEN type = '{MESSAGE}' THEN title END, metadata->>'author',
                   CASE WHEN thread <> '' THEN thread END, position
              FROM {SEARCHABLE.rows_sql("wanted")}
             WHERE space_id = %(space)s AND deleted_at IS NULL
               AND (pinned OR date BETWEEN %(start)s AND %(end)s)
            """,
            {
                "wanted": id_array(wanted),
                "space": self.asked.space.id,
                "start": max(self.window.start or DATE_MIN, DATE_MIN),
                "end": self.window.end,
            },
        )
        known = _Known(known.summaries.copy(), known.sizes.copy(), known.people.copy(), known.places.copy())
        for *row, notes_tokens, title, author, thread, position in rows:
            record = known.summaries[row[0]] = read_summary(row, self.asked.tokenizer)
            known.sizes[record.id] = notes_tokens
            known.people[record.id] = tuple(filter(None, (title, author)))
            if thread is not None and position is not None:
                known.places[record.id] = Place(thread, position, record.date, notes_tokens)
        return known


def _unknown_names(asked: PreparedRequest, question: str, known: Iterable[str]) -> list[str]:
    """Return the names in the question if none is `known`, in a record, or in the space's own texts."""
    names = names_in(question)
    if not names:
        return []
    shown = asked.space.shown
    own = words_of(
        " ".join((asked.space.slug, shown.name, shown.description, *shown.categories, *known)).lower()
    )
    words = [word for name in names for word in name.words]
    if not own.isdisjoint(words):
        return []
    unknown = unknown_words(SEARCHABLE, asked.space.id, words)
    return [*dict.fromkeys(name.text for name in names)] if unknown.issuperset(words) else []


def _look_up_dated(
    target: Target, passage: Passage, mentions: Mentions | None, limit: int, counts: FilterCounts
) -> Leads:
    """Return the best of all records in the window, and the best of the days that the question names."""
    leads = look_up(target, passage, limit=limit, passing=counts.filtered)
    days = mentions and mentions.range()
    if not days:
        return leads
    window = target.filters
    first = max(filter(None, (days.start, window.date_from, DATE_MIN)))
    last = min(filter(None, (days.end, window.date_to)))
    if first > last:
        return leads
    within = replace(target, filters=SearchFilters(date_from=first, date_to=last))
    return _join(leads, look_up(within, passage, limit=DATED_LEADS))


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


def _without_authors(
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


def read_at_most(ranked: Sequence[Scored], config: ContextConfig) -> int:
    """Return how many of the best-ranked texts to read: as many as could fit, and spare ones for repetitions.

    A record's line is at most `TYPE_TOKENS` shorter than its summary, unless notes are cut to less.
    """
    room, most = config.context_share(config.stage), most_that_fit(config, DETAIL_TOKENS)
    if config.question_notes_chars is not None and config.question_notes_chars < EXCERPT_CHARS:
        return most + SPARE_DETAILS
    sizes = accumulate(scored.record.tokens - TYPE_TOKENS for scored in ranked[:most])
    return sum(1 for size in sizes if size <= room) + 1 + SPARE_DETAILS


def _load_details(records: Sequence[RecordSummary]) -> dict[int, RecordDetail]:
    """Read the records' texts. Leave out a record that changed since its summary was read, which is possible
    inside a transaction that a caller began.
    """
    if not records:
        return {}
    versions = {record.id: record.version for record in records}
    rows = fetch_all(
        """
        SELECT id, version, title, type, tags, left(notes, %s), thread, position
          FROM contextopt_record
         WHERE id = ANY(%s::bigint[]) AND deleted_at IS NULL
        """,
        [NOTES_READ, id_array(versions)],
    )
    return {
        row_id: RecordDetail(title, type, tuple(tags), notes, thread, position)
        for row_id, version, title, type, tags, notes, thread, position in rows
        if version == versions[row_id]
    }
