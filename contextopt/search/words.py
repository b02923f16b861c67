"""Search by words: BM25 over a bounded number of candidates.

Words are looked up rarest first. Every row with one of the rarest words is a candidate, until there are too
many such rows. If only frequent words are left, rows with several of them come first. In a corpus where even
those are too many to read, the newest rows are the candidates. So the best rows by BM25 are exact if the
question has a rare word, and the work does not grow with the corpus.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any, Literal

from contextopt.engine.text.cleaning import normal_form
from contextopt.engine.text.lexical import UNSPACED, Bm25
from contextopt.search.registry import Searchable, SearchFilters
from contextopt.sql import fetch_all, fetch_column

PASSAGE_MAX = 10_000
"""Only this many characters of a passage are read."""
TERMS_MAX = 24
"""Only this many of a question's rarest words that the corpus has are scored, per language."""
CHECKED_MAX = 200
"""Only this many words without a count are looked for in the corpus."""
CANDIDATES_MAX = 600
CANDIDATES_MIN = 200
CANDIDATES_EACH = 5
"""Number of rows scored per requested row, within the two bounds."""
WEIGHINGS = 4_000
"""Maximum of words times candidates. It bounds the time, since each word is looked up in each candidate."""
READ_MAX = 8_000
"""Index entries that are read for a word without further checks."""
SORTED_MAX = 1_000
"""A look-up that is expected to match more rows is not made if the newest rows can be read instead: sorting
the matches would take longer.
"""
EVERYWHERE = 0.5
"""Words in a greater share of the rows do not tell them apart."""
NEWEST = 2_000
WEEKS_MAX = 14
"""A longer date range is not looked up week by week."""
COUNTED_MAX = 64
"""Further occurrences of a word in a row do not count."""
# A lower b finds a little more in dialogues (benchmarks, section `recall`) and less in bodies of commits.
BM25 = Bm25(k1=0.9, b=0.75)

# The Norwegian stemmer makes bruk of bruker, bruker of brukeren and brukere, and brukern of brukerne. All of
# them are looked for.
AGENT_ENDINGS = ("", "er", "ern")
_UNSPACED = re.compile(f"[{UNSPACED}]")
AGENT = re.compile(r"\b([^\W\d_]{3,40})er(?:ne|en|e|s)?\b")

type Lexemes = Mapping[str, tuple[str, ...]]

WEEK = timedelta(weeks=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# ts_rank of one word under equal weights is (1 + 1/4 + … + 1/n²) / (π²/6) for n occurrences. So the database
# counts them in one call, twenty times faster than unpacking the vector.
_RANK_LIMIT = 1.64493406685
_BY_COUNT = tuple(
    (total - 0.5 / count**2) / _RANK_LIMIT
    for count, total in enumerate(accumulate(1 / n**2 for n in range(1, COUNTED_MAX + 1)), start=1)
)

# A literal: an array of parameters takes longer to send than the words of most questions.
_BY_COUNT_SQL = "'{" + ",".join(map(repr, _BY_COUNT)) + "}'::float8[]"


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the question in the rows of one language, with its document frequency."""

    language: str
    lexeme: str
    documents: int

    @property
    def tsquery(self) -> str:
        """The lexeme; a single character of a script without blanks also as the beginning of a pair."""
        return quoted(self.lexeme) + (":*" if _UNSPACED.fullmatch(self.lexeme) else "")


@dataclass(frozen=True, slots=True)
class Terms:
    """The scored words, rarest first, and the corpus statistics.

    `is_sampled` means that the documents are not counted yet, so the numbers come from a sample.
    """

    terms: tuple[Term, ...]
    documents: int
    mean_length: float
    is_sampled: bool = False

    @property
    def corpus_rows(self) -> int | None:
        """Return the approximate number of rows in the corpus; None if unknown."""
        return None if self.is_sampled or not self.documents else self.documents

    @property
    def known_share(self) -> float:
        """Return the share of the question's words in several rows, by weight, in its best language."""
        known = defaultdict[str, float](float)
        for term in self.terms:
            known[term.language] += self._weight(term) if term.documents > 1 else 0.0
        return max((known[code] / whole for code, whole in self._weights().items()), default=0.0)

    def held_share(self, score: float) -> float:
        """Return the approximate share of the question's words, by weight, that a row of this BM25 has."""
        # Roughly the BM25 of a row with each word once, in the language where they weigh least.
        whole = min(self._weights().values(), default=0.0)
        return min(1.0, score / whole) if whole else 0.0

    def _weights(self) -> dict[str, float]:
        """Return the weight of all words of each language."""
        total = defaultdict[str, float](float)
        for term in self.terms:
            total[term.language] += self._weight(term)
        return total

    def _weight(self, term: Term) -> float:
        return BM25.idf(max(self.documents, term.documents), term.documents)

    def parameters(self) -> dict[str, Any]:
        return {
            "term_languages": [term.language for term in self.terms],
            "term_queries": [term.tsquery for term in self.terms],
            "term_weights": [self._weight(term) for term in self.terms],
            "k1": BM25.k1,
            "b": BM25.b,
            "mean_length": max(self.mean_length, 1.0),
        }


@dataclass(frozen=True, slots=True)
class Step:
    """One look-up of rows that match all of the tsqueries, in the word index or among the newest.

    The index intersects several short ones in half the time of one long one.
    """

    tsqueries: tuple[str, ...]
    source: Literal["words", "newest"] = "words"


def quoted(lexeme: str) -> str:
    """Return the lexeme as a tsquery, whatever characters it has."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def corpus_word(corpus_id: int) -> str:
    """Return the word that all rows of a corpus share. Words of texts never begin with a blank."""
    return f" {corpus_id}"


def week_words(corpus_id: int, start: datetime, end: datetime) -> list[str]:
    """Return the week words; each row of the corpus dated from start to end has one of them."""
    first, last = ((moment - EPOCH) // WEEK for moment in (start, end))
    return [f"{corpus_word(corpus_id)}w{week}" for week in range(first, last + 1)]


def read_lexemes(text: str) -> Lexemes:
    """Return the words of a question under each language's stemmer, without stop words."""
    cleaned = normal_form(text[:PASSAGE_MAX].replace("\x00", " ").encode(errors="ignore").decode())
    if not cleaned.strip():
        return {}
    rows = fetch_all(
        """
        SELECT language, tsvector_to_array(contextopt_search_words(contextopt_search_config(language),
                                                                   %s::text))
          FROM unnest(ARRAY['en', 'no']) AS language
        """,
        [cleaned],
    )
    found = {language: tuple(without_ends(lexemes)) for language, lexemes in rows}
    bases = AGENT.findall(cleaned.lower())
    agents = [base + ending for base in bases for ending in AGENT_ENDINGS]
    return {**found, "no": tuple(dict.fromkeys([*found["no"], *agents]))}


def without_ends(lexemes: Sequence[str]) -> Iterator[str]:
    """Yield the lexemes without the last characters of runs whose pairs are looked up."""
    ends = {lexeme[1] for lexeme in lexemes if len(lexeme) == 2 and _UNSPACED.match(lexeme)}
    return (lexeme for lexeme in lexemes if lexeme not in ends)


def weigh_terms(searchable: Searchable, corpus_id: int, lexemes: Lexemes) -> Terms:
    """Return the question's words with their document frequencies from the last count."""
    wanted = sorted({lexeme for found in lexemes.values() for lexeme in found})
    if not wanted:
        return Terms((), 0, 0.0)
    rows = fetch_all(
        """
        SELECT c.documents, c.mean_length, f.lexeme, f.documents
          FROM contextopt_searchcorpus c
          LEFT JOIN contextopt_documentfrequency f ON f.corpus_id = c.id AND f.lexeme = ANY(%s::text[])
         WHERE c.searchable = %s AND c.corpus_id = %s
        """,
        [wanted, searchable.name, corpus_id],
    )
    if rows:
        documents, mean_length = rows[0][:2]
        counts = {lexeme: count for _, _, lexeme, count in rows if lexeme is not None}
    else:
        documents, mean_length, counts = _count_now(searchable, corpus_id, wanted[:CHECKED_MAX])
    if rows and any(len(found) > TERMS_MAX for found in lexemes.values()):
        counts |= find_single(searchable, corpus_id, [word for word in wanted if word not in counts])
    terms = [
        Term(language, lexeme, max(1, counts.get(lexeme, 0)))
        for language, found in lexemes.items()
        for lexeme in _rarest(found, counts)
    ]
    ordered = sorted(terms, key=lambda term: (term.documents, term.lexeme))
    return Terms(tuple(ordered), documents, mean_length, is_sampled=not rows)


def _rarest(lexemes: Sequence[str], counts: Mapping[str, int]) -> list[str]:
    """Return the rarest words. If there are too many, words that no document has take no place."""
    known = lexemes if len(lexemes) <= TERMS_MAX else [lexeme for lexeme in lexemes if counts.get(lexeme)]
    return sorted(known, key=lambda lexeme: (counts.get(lexeme, 0), lexeme))[:TERMS_MAX]


def find_single(searchable: Searchable, corpus_id: int, lexemes: Sequence[str]) -> dict[str, int]:
    """Return those of the words without a stored count that some document has, each as one document."""
    where, parameters = searchable.passing_words(corpus_id, SearchFilters())
    checked = lexemes[:CHECKED_MAX]
    found = fetch_column(
        f"""
        SELECT w.lexeme FROM unnest(%(lexemes)s::text[], %(words)s::text[]) AS w(lexeme, word)
         WHERE EXISTS (SELECT FROM {searchable.table} t WHERE t.search_vector @@ w.word::tsquery AND {where})
        """,
        {
            **parameters,
            "lexemes": checked,
            "words": [f"{quoted(corpus_word(corpus_id))} & {quoted(lexeme)}" for lexeme in checked],
        },
    )
    return dict.fromkeys(found, 1)


def _count_now(
    searchable: Searchable, corpus_id: int, lexemes: Sequence[str]
) -> tuple[int, float, dict[str, int]]:
    """Return the documents, their mean length and each word's documents, counted up to a bound.

    For a corpus that has no stored count yet.
    """
    where, parameters = searchable.passing(corpus_id, SearchFilters())
    words = [f"{quoted(corpus_word(corpus_id))} & {quoted(lexeme)}" for lexeme in lexemes]
    [(documents, mean_length)] = fetch_all(
        f"""
        SELECT count(*), coalesce(avg(length(words)), 0)::float8
          FROM (SELECT t.search_vector AS words FROM {searchable.table} t
                 WHERE {where} LIMIT {2 * CANDIDATES_MAX}) AS sample
        """,
        parameters,
    )
    counts = fetch_all(
        f"""
        SELECT w.lexeme, found.documents
          FROM unnest(%(lexemes)s::text[], %(words)s::text[]) AS w(lexeme, word)
         CROSS JOIN LATERAL (
               SELECT count(*) AS documents
                 FROM (SELECT FROM {searchable.table} t
                        WHERE t.search_vector @@ w.word::tsquery AND {where}
                        LIMIT {2 * CANDIDATES_MAX}) AS sample) AS found
        """,
        {**parameters, "lexemes": list(lexemes), "words": words},
    )
    return documents, mean_length, dict(counts)


def unpacked(words: str) -> str:
    """Return the SQL of words, all of one weight, for `terms_sql` to look into.

    A stored vector may be compressed or out of line. This copy is unpacked once, not once per word.
    """
    return f"setweight({words}, 'A')"


# BM25 of a row p by its words that `terms_sql` joins.
SCORE = """sum(q.weight * n.found * (%(k1)s::float8 + 1)
           / (n.found + %(k1)s::float8 * (1 - %(b)s::float8
              + %(b)s::float8 * length(p.words) / %(mean_length)s::float8)))"""


def terms_sql(join: Literal["INNER", "LEFT"]) -> str:
    """Return the SQL that joins rows p with the words of `Terms.parameters` they contain, and how often.

    The rows have the columns language and words, the latter made by `unpacked`.
    """
    return f"""
        {join} JOIN unnest(
               %(term_languages)s::text[], %(term_queries)s::tsquery[], %(term_weights)s::float8[])
             AS q(language, word, weight) ON q.language = p.language AND p.words @@ q.word
        {join} JOIN LATERAL (
             SELECT width_bucket(ts_rank('{{1,1,1,1}}', p.words, q.word)::float8, {_BY_COUNT_SQL}) AS found
             OFFSET 0) AS n ON true"""


def best_by_words(
    searchable: Searchable,
    corpus_id: int,
    terms: Terms,
    *,
    filters: SearchFilters,
    limit: int,
    passing: float | None = None,
) -> dict[int, float]:
    """Return the ids of the best rows with their BM25, best first.

    `passing` is the approximate number of rows of the corpus that pass the filters, if known.
    """
    each = max((sum(1 for term in terms.terms if term.language == code) for code in ("en", "no")), default=1)
    # The number of rows that are scored to find the best.
    bound = max(CANDIDATES_MIN, min(CANDIDATES_MAX, CANDIDATES_EACH * limit, WEIGHINGS // max(1, each)))
    share = 1.0 if passing is None else min(1.0, passing / max(1, terms.documents))
    place = _place(searchable, corpus_id, filters)
    steps = list(_steps(terms, place, bound, share, reads_newest=filters.is_by_date))
    if not steps:
        return {}
    pool, parameters = _pool_sql(searchable, steps, corpus_id, filters, bound)
    rows = fetch_all(
        f"SELECT p.id, {SCORE} AS score FROM ({pool}) AS p {terms_sql('INNER')}"
        " GROUP BY p.id ORDER BY score DESC, p.id DESC LIMIT %(limit)s",
        {**terms.parameters(), **parameters, "limit": limit},
    )
    return dict(rows)


def _place(searchable: Searchable, corpus_id: int, filters: SearchFilters) -> str:
    """Return the tsquery of rows in the corpus, and in the requested weeks if they are few."""
    start, end = filters.date_from, filters.date_to
    if searchable.has_windows and start and end and start <= end <= start + WEEKS_MAX * WEEK:
        return f"({' | '.join(map(quoted, week_words(corpus_id, start, end)))})"
    return quoted(corpus_word(corpus_id))


def _steps(terms: Terms, place: str, bound: int, share: float, *, reads_newest: bool) -> Iterator[Step]:
    """Yield the look-ups whose rows together are the candidates, the most specific first.

    About `share` of the documents can be candidates. `reads_newest` allows the newest rows to be read. With
    filters other than dates that is too slow, because the rows that pass may be far apart.
    """
    counts = {term.tsquery: term.documents for term in terms.terms}
    totals = zip(counts, accumulate(counts.values()), strict=True)
    rare = [word for word, total in totals if total * share <= bound]
    common = [word for word in counts if word not in rare]
    if rare:
        yield Step((place, " | ".join(rare)))
    if not common:
        return
    first = common[0]
    if counts[first] > READ_MAX and reads_newest:
        yield Step((" | ".join(common),), "newest")
        return
    distinctive = [word for word in common if counts[word] <= EVERYWHERE * terms.documents]
    if together := _all_of(terms, distinctive):
        yield Step((place, *together))
    others = [word for word in distinctive if word != first]
    # With one other word, this equals the previous look-up.
    is_looked_up = bool(together) and len(others) == 1
    with_others = sum(map(counts.__getitem__, others)) / max(1, terms.documents)
    is_few = not reads_newest or with_others * counts[first] * share <= SORTED_MAX
    if others and not is_looked_up and with_others <= EVERYWHERE and is_few:
        yield Step((place, first, " | ".join(others)))
    if reads_newest and counts[first] * share > SORTED_MAX:
        yield Step((" | ".join(distinctive or common),), "newest")
        return
    yield Step((place, first))


def _all_of(terms: Terms, words: Sequence[str]) -> tuple[str, ...]:
    """Return tsqueries that together match rows with every word of a language, if it has several words.

    Return none if all are very frequent. Words that all languages share become tsqueries of their own. If a
    language has only those, they are the whole condition.
    """
    wanted = []
    for code in sorted({term.language for term in terms.terms}):
        own = [term for term in terms.terms if term.language == code and term.tsquery in words]
        if len(own) > 1 and own[0].documents <= READ_MAX:
            wanted.append([term.tsquery for term in own])
    shared = [word for word in wanted[0] if all(word in one for one in wanted)] if wanted else []
    further = [" & ".join(word for word in one if word not in shared) for one in wanted]
    if not all(further):
        return tuple(shared)
    return (*shared, " | ".join(f"({one})" for one in further)) if further else ()


def _pool_sql(
    searchable: Searchable, steps: Sequence[Step], corpus_id: int, filters: SearchFilters, bound: int
) -> tuple[str, dict[str, Any]]:
    """Return the candidates' statement. Its limits are literals, because the planner guesses parameters.

    The candidates are the newest `bound` rows of each look-up, those of earlier look-ups first, so they do
    not depend on the plan. With filters other than dates, a look-up may match any number of rows, so only
    `bound` of them are read, in any order.
    """
    most = 4 * SORTED_MAX if filters.is_by_date else bound
    by_word, parameters = searchable.passing_words(corpus_id, filters)
    by_date, _ = searchable.passing(corpus_id, filters)
    selects = []
    for number, step in enumerate(steps):
        names = [f"step_{number}_{place}" for place in range(len(step.tsqueries))]
        parameters |= zip(names, step.tsqueries, strict=True)
        matches = " AND ".join(f"t.search_vector @@ %({name})s::tsquery" for name in names)
        date = searchable.date_column
        source = f"(SELECT t.* FROM {searchable.table} t WHERE {by_word} AND {matches} LIMIT {most}) AS t"
        if step.source == "newest":
            newest = (
                f"SELECT t.* FROM {searchable.table} t WHERE {by_date}"
                f" ORDER BY t.{searchable.date_column} DESC, t.id DESC LIMIT {NEWEST}"
            )
            source = f"({newest}) AS t WHERE {matches}"
        selects.append(
            f"(SELECT {number} AS step, t.{date} AS date, t.id, t.language, t.search_vector AS words"
            f" FROM {source} ORDER BY t.{date} DESC, t.id DESC LIMIT {bound})"
        )
    return (
        f"""
        SELECT DISTINCT ON (id) id, language, {unpacked("words")} AS words
          FROM (SELECT * FROM ({" UNION ALL ".join(selects)}) AS found
                 ORDER BY step, date DESC, id DESC LIMIT {bound}) AS looked_up
         ORDER BY id""",
        parameters,
    )
