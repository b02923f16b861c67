"""Count how many documents of a corpus contain each word. A job counts again when the corpus has changed."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from contextopt.engine.queryanalysis import spellings
from contextopt.engine.text.lexical import Bm25
from contextopt.locks import Lock, wait_turn
from contextopt.search.models import SearchCorpus
from contextopt.search.registry import Searchable, SearchFilters
from contextopt.search.words import corpus_word, find_single, quoted, read_lexemes
from contextopt.sql import execute, fetch_all, fetch_column

# A larger corpus is estimated from its newest documents. A larger sample would take ten more seconds for one
# more digit of precision.
SAMPLE = 200_000
# Words in fewer documents are not stored. A word without a row counts as being in one document.
LISTED_FROM = 2
# Longer words are hashes and data. An entry of the table's index can hold 2,700 bytes.
LEXEME_MAX_BYTES = 255
# Share of a corpus that may change before its words are counted again.
CHANGE_SHARE = 0.05
CHANGE_MIN = 10
# Edits do not change the totals, so a corpus is counted again after this time in any case.
COUNT_LIFE = timedelta(days=1)
# Looking up the words of a long prompt takes a few milliseconds.
WORDS_MAX = 500
_IDF = Bm25().idf
_WORD = re.compile(r"\w+")


def count_words(searchable: Searchable, corpus_id: int) -> SearchCorpus:
    """Count the corpus's documents and words, and replace the previous count. Idempotent."""
    live, _ = searchable.passing(corpus_id, SearchFilters())
    with transaction.atomic():
        wait_turn(Lock.WORDS, searchable.name, corpus_id)
        documents = _count_documents(searchable, corpus_id)
        sample = (
            f"SELECT t.search_vector FROM {searchable.table} t WHERE {live}"
            f" ORDER BY t.{searchable.date_column} DESC, t.id DESC LIMIT {SAMPLE}"
        ).replace("%(search_corpus)s", str(int(corpus_id)))
        [mean] = fetch_column(f"SELECT coalesce(avg(length(search_vector)), 0) FROM ({sample}) AS s")
        corpus, _ = SearchCorpus.objects.update_or_create(
            searchable=searchable.name,
            corpus_id=corpus_id,
            defaults={"documents": documents, "mean_length": float(mean), "counted_at": timezone.now()},
        )
        _replace(corpus, sample, scale=max(1.0, documents / SAMPLE))
    return corpus


def _replace(corpus: SearchCorpus, sample: str, *, scale: float) -> None:
    corpus.frequencies.all().delete()
    # The corpus's own word begins with a blank.
    execute(
        """
        INSERT INTO contextopt_documentfrequency (corpus_id, lexeme, documents)
        SELECT %s, word, round(ndoc * %s::float8) FROM ts_stat(%s)
         WHERE ndoc >= %s AND left(word, 1) <> ' ' AND octet_length(word) <= %s
        """,
        [corpus.pk, scale, sample, LISTED_FROM, LEXEME_MAX_BYTES],
    )


def ensure_counted(searchable: Searchable, corpus_id: int) -> None:
    """Count the corpus's words unless its size has hardly changed since the last count."""
    corpus = SearchCorpus.objects.of(searchable.name, corpus_id).first()
    if corpus is None or _has_changed(searchable, corpus):
        tidy_index(searchable)
        count_words(searchable, corpus_id)


def _has_changed(searchable: Searchable, corpus: SearchCorpus) -> bool:
    change = abs(_count_documents(searchable, corpus.corpus_id) - corpus.documents)
    return change >= max(CHANGE_MIN, CHANGE_SHARE * corpus.documents)


def _count_documents(searchable: Searchable, corpus_id: int) -> int:
    live, parameters = searchable.passing(corpus_id, SearchFilters())
    [count] = fetch_column(f"SELECT count(*) FROM {searchable.table} t WHERE {live}", parameters)
    return int(count)


def count_changed(searchable: Searchable, *, ends_at: datetime) -> int:
    """Count changed corpora until `ends_at`, and return their number."""
    drop_gone_corpora(searchable)
    tidy_index(searchable)
    counted = 0
    for corpus_id in changed_corpora(searchable, now=timezone.now()):
        if timezone.now() >= ends_at:
            break
        count_words(searchable, corpus_id)
        counted += 1
    return counted


def changed_corpora(searchable: Searchable, *, now: datetime) -> list[int]:
    """Return the corpora to count again, those never counted first."""
    return fetch_column(
        f"""
        SELECT n.corpus_id
          FROM (SELECT t.{searchable.corpus_column} AS corpus_id, count(*) AS documents
                  FROM {searchable.table} t WHERE {searchable.live_sql} GROUP BY 1) AS n
          LEFT JOIN contextopt_searchcorpus c
            ON c.searchable = %s AND c.corpus_id = n.corpus_id
         WHERE c.id IS NULL OR c.counted_at < %s
            OR abs(n.documents - c.documents) >= greatest({CHANGE_MIN}, {CHANGE_SHARE} * c.documents)
         ORDER BY c.counted_at NULLS FIRST, n.corpus_id
        """,
        [searchable.name, now - COUNT_LIFE],
    )


def drop_gone_corpora(searchable: Searchable) -> int:
    """Delete the counts of corpora without documents, and return their number."""
    return execute(
        f"""
        DELETE FROM contextopt_searchcorpus c
         WHERE c.searchable = %s AND NOT EXISTS (
               SELECT FROM {searchable.table} t
                WHERE t.{searchable.corpus_column} = c.corpus_id AND {searchable.live_sql})
        """,
        [searchable.name],
    )


def tidy_index(searchable: Searchable) -> None:
    """Merge pending writes into the GIN index. Until then, each search scans all of them."""
    execute(
        """
        SELECT gin_clean_pending_list(i.indexrelid)
          FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
         WHERE i.indrelid = %s::regclass AND a.amname = 'gin' AND i.indisvalid
        """,
        [searchable.table],
    )


def known_shares(searchable: Searchable, corpus_id: int, texts: Sequence[str]) -> list[float]:
    """Return how much of each text's words the corpus has, by weight, from 0 to 1.

    It is 0 for all of them if the corpus's words are not counted yet. Stop words have no weight.
    """
    words = [set(_WORD.findall(text.lower())) for text in texts]
    wanted = [*dict.fromkeys(word for text in texts for word in _WORD.findall(text.lower()))]
    weights, known = _weigh(searchable, corpus_id, wanted)
    return [_share(some & weights.keys(), known, weights) for some in words]


def unknown_words(searchable: Searchable, corpus_id: int, words: Iterable[str]) -> set[str]:
    """Return those of the words that no row of the corpus has, spelling mistakes of one letter forgiven.

    There are none if the corpus's words are not counted yet.
    """
    weights, known = _weigh(searchable, corpus_id, [*dict.fromkeys(words)])
    return {word for word in weights.keys() - known if not _is_misspelled(searchable, corpus_id, word)}


def _is_misspelled(searchable: Searchable, corpus_id: int, word: str) -> bool:
    """Return whether a row of the corpus has a word that differs from this one in one letter.

    Each row is searched by the stems of its own language, since a stem may be another word's in the other.
    """
    found = read_lexemes(" ".join(spellings(word)))
    where, parameters = searchable.passing_words(corpus_id, SearchFilters())
    matches = []
    for code, lexemes in found.items():
        if lexemes:
            matches.append(f"(t.language = '{code}' AND t.search_vector @@ %(spelled_{code})s::tsquery)")
            spelled = " | ".join(map(quoted, lexemes))
            parameters[f"spelled_{code}"] = f"{quoted(corpus_word(corpus_id))} & ({spelled})"
    if not matches:
        return False
    sql = f"SELECT 1 FROM {searchable.table} t WHERE ({' OR '.join(matches)}) AND {where} LIMIT 1"
    return bool(fetch_column(sql, parameters))


def _weigh(searchable: Searchable, corpus_id: int, words: Sequence[str]) -> tuple[dict[str, float], set[str]]:
    """Return the weight of each word that is no stop word, and those that the corpus has.

    There are none if the corpus's words are not counted yet.
    """
    rows = fetch_all(
        """
        SELECT w.word, c.documents, array_agg(DISTINCT l.lexeme), max(f.documents)
          FROM contextopt_searchcorpus c
         CROSS JOIN unnest(%s::text[]) AS w(word)
         CROSS JOIN unnest(ARRAY['en', 'no']) AS language
          LEFT JOIN LATERAL unnest(tsvector_to_array(
               contextopt_search_words(contextopt_search_config(language), w.word))) AS l(lexeme) ON true
          LEFT JOIN contextopt_documentfrequency f ON f.corpus_id = c.id AND f.lexeme = l.lexeme
         WHERE c.searchable = %s AND c.corpus_id = %s
         GROUP BY w.word, c.documents HAVING bool_and(l.lexeme IS NOT NULL)
         ORDER BY array_position(%s::text[], w.word)
        """,
        [words[:WORDS_MAX], searchable.name, corpus_id, words[:WORDS_MAX]],
    )
    rare = dict.fromkeys(lexeme for *_, lexemes, few in rows if few is None for lexeme in lexemes)
    single = find_single(searchable, corpus_id, [*rare]) if rare else {}
    weights = {word: _IDF(max(whole, few or 1), few or 1) for word, whole, _, few in rows}
    known = {word for word, _, lexemes, few in rows if few or not single.keys().isdisjoint(lexemes)}
    return weights, known


def _share(words: set[str], known: set[str], weights: Mapping[str, float]) -> float:
    whole = sum(weights[word] for word in words)
    return sum(weights[word] for word in words & known) / whole if whole else 0.0
