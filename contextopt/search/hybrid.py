"""One search over any searchable table, by words and meaning combined, inside one corpus."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, product
from typing import Literal

import structlog
from django.utils import timezone

from contextopt.engine.queryanalysis import without_framing
from contextopt.engine.ranking import Match
from contextopt.engine.text.fusion import Fused, reciprocal_rank, weighted
from contextopt.engine.text.promptparts import Span
from contextopt.engine.text.promptpassages import (
    Candidate,
    are_few,
    candidates,
    choose,
    is_plain,
    most_likely,
    searched_text,
)
from contextopt.search.embedders.current import (
    USUAL_SIMILARITIES,
    QueryVector,
    embed_queries,
    is_remote,
)
from contextopt.search.embedders.values import EmbeddingUnavailable
from contextopt.search.registry import Searchable, SearchFilters
from contextopt.search.vectors.nearest import (
    EXACT_ROWS,
    NO_CONDITION,
    Condition,
    best_cosines,
    distance_sql,
    nearest,
    to_cosine,
)
from contextopt.search.wordcounts import known_shares
from contextopt.search.words import (
    SCORE,
    Lexemes,
    Terms,
    best_by_words,
    read_lexemes,
    terms_sql,
    unpacked,
    weigh_terms,
)
from contextopt.sql import expected_rows, fetch_all, id_array, planned_anew

log = structlog.get_logger(__name__)

# A row that only one ranking places high may still be among the best of both.
DEPTH_MIN = 50

Method = Literal["rrf", "weighted"]


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a question that is looked up: its words under each language's stemmer, and its vector.

    `vector` is None if the text has no embedding.
    """

    text: str
    lexemes: Lexemes
    vector: QueryVector | None


@dataclass(frozen=True, slots=True)
class Question:
    """The passages of a text that are looked up, the best first, and their places in it.

    There are no `spans` if the only passage is the whole text. `degraded` means that the vectors could not be
    computed this time.
    """

    text: str
    passages: tuple[Passage, ...]
    spans: tuple[Span, ...]
    degraded: bool = False

    @property
    def lexemes(self) -> Lexemes:
        """The words of all passages."""
        languages = dict.fromkeys(code for passage in self.passages for code in passage.lexemes)
        return {
            code: tuple(dict.fromkeys(chain(*(each.lexemes.get(code, ()) for each in self.passages))))
            for code in languages
        }


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A text prepared once: the passages that may be its question, with their vectors.

    A vector is None if its passage has no embedding. `degraded` means that they could not be computed this
    time.
    """

    text: str
    candidates: tuple[Candidate, ...]
    vectors: tuple[QueryVector | None, ...]
    degraded: bool = False

    def choose(self, targets: Sequence["Target"]) -> Question:
        """Choose the passages that the corpora hold the most about. Without corpora, all are chosen."""
        spans = [each.span for each in self.candidates]
        if targets and len(spans) > 1:
            model = next((vector.model for vector in self.vectors if vector is not None), "")
            usual = USUAL_SIMILARITIES.get(model)
            spans = choose(self.candidates, self._best_cosines(targets), usual)
        vectors = {each.span: vector for each, vector in zip(self.candidates, self.vectors, strict=True)}
        texts = [self.text[span.start : span.end] for span in spans]
        passages = [
            Passage(text, read_lexemes(without_framing(text)), vectors[span])
            for text, span in zip(texts, spans, strict=True)
        ]
        if texts == [self.text]:
            return Question(self.text, tuple(passages), (), self.degraded)
        return Question(searched_text(self.text, spans), tuple(passages), tuple(spans), self.degraded)

    def _best_cosines(self, targets: Sequence["Target"]) -> list[float | None]:
        """Return the best cosine in any of the corpora for each candidate."""
        given = [vector for vector in self.vectors if vector is not None]
        found = [best_cosines(each.searchable, each.corpus_id, given) for each in targets]
        best = iter([max(filter(None, some), default=None) for some in zip(*found, strict=True)])
        return [None if vector is None else next(best, None) for vector in self.vectors]


@dataclass(frozen=True, slots=True)
class Hit:
    """A found row of the searchable `kind`.

    `relevance`, `match` and `decay` are from 0 to 1. `relevance` is `fused` scaled, so it is relative to the
    other rows. `match` says how well the row alone fits the question.
    """

    kind: str
    id: int
    lexical: float
    similarity: float | None
    fused: float
    relevance: float
    match: float
    decay: float
    lexical_rank: int | None
    vector_rank: int | None

    @property
    def decayed(self) -> float:
        return self.relevance * self.decay


@dataclass(frozen=True, slots=True)
class Target:
    """The search target: one corpus of one table, and the filters for a hit there."""

    searchable: Searchable
    corpus_id: int
    filters: SearchFilters


def prepare_query(
    text: str,
    patterns: str | None = None,
    *,
    targets: Sequence[Target] = (),
    spans: Sequence[Span] = (),
) -> PreparedQuery:
    """Find and embed the passages of a text that may be its question, or take those at the given spans.

    If the embedder is down, there are no vectors. `patterns` are those of a space's settings. If there are
    many such passages, the words that the targets know decide which are taken.
    """
    if spans:
        found = tuple([Candidate(span) for span in spans])
    elif is_plain(text):
        found = (Candidate(Span(0, len(text))),)
    else:
        found = tuple(candidates(text, patterns))
        if not are_few(found):
            found = tuple(most_likely(found, _known(targets, [text[slice(*each.span)] for each in found])))
    subjects = [without_framing(text[each.span.start : each.span.end]) for each in found]
    try:
        return PreparedQuery(text, found, tuple(embed_queries(subjects)))
    except EmbeddingUnavailable as error:
        log.warning("query_not_embedded", error=str(error))
        return PreparedQuery(text, found, (None,) * len(found), degraded=True)


def _known(targets: Sequence[Target], texts: Sequence[str]) -> list[float]:
    """Return how much of each text's words one of the corpora knows, from 0 to 1."""
    shares = [known_shares(each.searchable, each.corpus_id, texts) for each in targets]
    return [max(some) for some in zip(*shares, strict=True)] or [0.0] * len(texts)


def prepare_passages(text: str, spans: Sequence[Span]) -> Question:
    """Prepare a text whose passages were chosen before. Without spans, the whole text is the passage."""
    return prepare_query(text, spans=spans or [Span(0, len(text))]).choose([])


def with_meaning_of(passage: Passage, text: str) -> Passage:
    """Return the passage with the vector of another text; the passage itself if one of them has none.

    Endpoints are not called, because the caller would hold its snapshot, and in the chat a lock, until they
    answer.
    """
    if passage.vector is None or is_remote(passage.vector.model):
        return passage
    try:
        [vector] = embed_queries([text])
    except EmbeddingUnavailable as error:
        log.warning("query_not_embedded", error=str(error))
        return passage
    return passage if vector is None else replace(passage, vector=vector)


@dataclass(frozen=True, slots=True)
class Leads:
    """The best rows from each index: by words with their BM25, and by meaning with their cosine.

    A row from one index has no score from the other unless it is among the best there too; `rate` computes
    the missing scores.
    """

    target: Target
    query: Passage
    terms: Terms
    lexical: Mapping[int, float]
    cosines: Mapping[int, float]

    @property
    def ids(self) -> set[int]:
        return {*self.lexical, *self.cosines}


def look_up(
    target: Target, query: Passage, *, limit: int, passing: float | None = None, terms: Terms | None = None
) -> Leads:
    """Find the best `limit` by words and the best `limit` by meaning among rows that pass the filters.

    The work is bounded for any size of the corpus. `passing` is the approximate number of rows that pass, and
    `terms` are those of an earlier look-up of the passage in the corpus, if the caller knows them.
    """
    searchable, corpus_id, filters = target.searchable, target.corpus_id, target.filters
    terms = terms or weigh_terms(searchable, corpus_id, query.lexemes)
    with planned_anew():
        passing = _passing(target, terms) if passing is None else passing
        lexical = best_by_words(searchable, corpus_id, terms, filters=filters, limit=limit, passing=passing)
        cosines = dict(_nearest(target, query, limit, passing))
    return Leads(target, query, terms, lexical, cosines)


def look_up_meaning(leads: Leads, query: Passage, *, limit: int, passing: float) -> Leads:
    """Replace the matches by meaning with those for another form of the question. Matches by words stay."""
    with planned_anew():
        return replace(leads, query=query, cosines=dict(_nearest(leads.target, query, limit, passing)))


def rate(leads: Leads, also: Iterable[int] = ()) -> dict[int, Match]:
    """Return both scores of the leads, and of the rows in `also` that pass the filters."""
    target = leads.target
    found = {row: Match(leads.lexical.get(row, 0.0), leads.cosines.get(row)) for row in leads.ids}
    known = leads.lexical.keys() & leads.cosines.keys()
    rated = rate_rows(
        target.searchable,
        target.corpus_id,
        leads.terms,
        leads.query.vector,
        sorted((found.keys() | set(also)) - known),
        filters=target.filters,
    )
    # A lead deleted in the meantime is not in `rated`, and keeps the score that was found.
    return dict(sorted({**found, **rated}.items()))


def search(
    searchable: Searchable,
    corpus_id: int,
    query: PreparedQuery,
    *,
    filters: SearchFilters,
    limit: int,
    min_similarity: float | None = None,
    now: datetime | None = None,
) -> list[Hit]:
    """Return the best `limit` of one table, best first. With `min_similarity` a row needs a vector."""
    target = Target(searchable, corpus_id, filters)
    return search_all([target], query.choose([target]), limit=limit, min_similarity=min_similarity, now=now)


def search_all(
    targets: Sequence[Target],
    question: Question,
    *,
    limit: int,
    method: Method = "rrf",
    hybrid_alpha: float = 0.5,
    min_similarity: float | None,
    now: datetime | None,
) -> list[Hit]:
    """Return the best `limit` of several tables, ranked together, the highest `decayed` first.

    Raises:
        InvalidValue: `hybrid_alpha` is not from 0 to 1.
    """
    depth = max(limit, DEPTH_MIN)
    found: dict[tuple[str, int], Match] = {}
    fits: dict[tuple[str, int], float] = {}
    decays: dict[tuple[str, int], float] = {}
    for target, passage in product(targets, question.passages):
        kind = target.searchable.name
        leads = look_up(target, passage, limit=depth)
        parts = rate(leads)
        wanted = [row_id for row_id, each in parts.items() if _is_similar(each, min_similarity)]
        for row_id in wanted:
            row, part = (kind, row_id), parts[row_id]
            found[row] = best_match(found[row], part) if row in found else part
            fits[row] = max(fits.get(row, 0.0), _fit(part, leads.terms))
        factors = decay_factors(target.searchable, wanted, now or timezone.now())
        decays |= {(kind, row_id): factor for row_id, factor in factors.items()}
    hits = [
        _hit(row, found[row.id], fits[row.id], decays.get(row.id, 1.0))
        for row in _fuse(found, method, hybrid_alpha)
    ]
    return sorted(hits, key=lambda hit: -hit.decayed)[:limit]


def _fuse(
    found: Mapping[tuple[str, int], Match], method: Method, hybrid_alpha: float
) -> list[Fused[tuple[str, int]]]:
    """Rank the rows by both scores combined."""
    lexical = {key: parts.lexical for key, parts in found.items() if parts.lexical > 0}
    vector = {key: parts.similarity for key, parts in found.items() if parts.similarity is not None}
    if method == "weighted":
        return weighted(lexical, vector, alpha=hybrid_alpha)
    return reciprocal_rank(lexical, vector)


def best_match(one: Match, other: Match) -> Match:
    """Return the higher of each of the two scores."""
    similar = [each for each in (one.similarity, other.similarity) if each is not None]
    return Match(max(one.lexical, other.lexical), max(similar, default=None))


def _is_similar(match: Match, least: float | None) -> bool:
    return least is None or (match.similarity is not None and match.similarity >= least)


def _fit(match: Match, terms: Terms) -> float:
    """Return how well a row fits the question, by words or by meaning, from 0 to 1."""
    return min(1.0, max(terms.held_share(match.lexical), match.similarity or 0.0))


def _hit(row: Fused[tuple[str, int]], match: Match, fit: float, decay: float) -> Hit:
    kind, row_id = row.id
    return Hit(
        kind=kind,
        id=row_id,
        lexical=match.lexical,
        similarity=match.similarity,
        fused=row.score,
        relevance=row.relevance,
        match=fit,
        decay=decay,
        lexical_rank=row.lexical_rank,
        vector_rank=row.vector_rank,
    )


def _passing(target: Target, terms: Terms) -> float | None:
    """Return the approximate number of rows that pass the filters, or a lower bound; None if unknown."""
    rows = terms.corpus_rows
    if target.filters == SearchFilters() or (rows is not None and rows <= EXACT_ROWS):
        return rows
    where, parameters = target.searchable.passing(target.corpus_id, target.filters)
    return expected_rows(f"SELECT FROM {target.searchable.table} t WHERE {where}", parameters)


def _nearest(target: Target, query: Passage, limit: int, rows: float | None) -> list[tuple[int, float]]:
    if query.vector is None:
        return []
    filters, condition = target.filters, NO_CONDITION
    if filters != SearchFilters():
        dates = (filters.date_from, filters.date_to) if filters.is_by_date else None
        condition = Condition(*target.searchable.passing(target.corpus_id, filters), dates)
    return nearest(
        target.searchable, target.corpus_id, query.vector, condition=condition, limit=limit, rows=rows
    )


def decay_factors(searchable: Searchable, ids: Sequence[int], now: datetime) -> dict[int, float]:
    """Return what age leaves of each row, from 0 to 1; nothing for a table whose rows do not fade."""
    if searchable.decay_sql is None or not ids:
        return {}
    rows = fetch_all(
        f"SELECT t.id, ({searchable.decay_sql})::float8 FROM {searchable.table} t"
        " WHERE t.id = ANY(%(ids)s::bigint[])",
        {"ids": list(ids), "now": now},
    )
    return {row_id: min(1.0, max(0.0, factor)) for row_id, factor in rows}


def rate_rows(
    searchable: Searchable,
    corpus_id: int,
    terms: Terms,
    vector: QueryVector | None,
    ids: Sequence[int],
    *,
    filters: SearchFilters,
) -> dict[int, Match]:
    """Return both scores of those rows that are live, in the corpus, and pass the filters."""
    if not ids:
        return {}
    where, parameters = searchable.passing(corpus_id, filters)
    distance = "NULL::float8"
    if vector is not None:
        distance, more = distance_sql(searchable, corpus_id, vector)
        parameters |= more
    statement = f"""
        SELECT p.id, coalesce({SCORE}, 0), min(p.distance)
          FROM (SELECT t.id, t.language, {unpacked("t.search_vector")} AS words, {distance} AS distance
                  FROM {searchable.rows_sql("rated")} WHERE {where} OFFSET 0) AS p {terms_sql("LEFT")}
         GROUP BY p.id
        """
    rows = fetch_all(statement, {**terms.parameters(), **parameters, "rated": id_array(ids)})
    return {row: Match(score, None if apart is None else to_cosine(apart)) for row, score, apart in rows}
