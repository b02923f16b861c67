"""What a question says of rows that are known by their ids: BM25 and distance, in one statement."""

from collections.abc import Sequence

from django.db import connection

from contextopt.engine import Match
from contextopt.lexicalsearch import SCORE, Terms, terms_sql, unpacked
from contextopt.searchables import Searchable, SearchFilters, id_array
from contextopt.vectorsearch import QueryVector, distance_sql, to_cosine


def rate_rows(
    searchable: Searchable,
    corpus_id: int,
    terms: Terms,
    vector: QueryVector | None,
    ids: Sequence[int],
    *,
    filters: SearchFilters,
) -> dict[int, Match]:
    """Return what search says of those of the rows that are live, of the corpus, and pass the filters."""
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
    with connection.cursor() as cursor:
        cursor.execute(statement, {**terms.parameters(), **parameters, "rated": id_array(ids)})
        return {
            row: Match(score, None if apart is None else to_cosine(apart))
            for row, score, apart in cursor.fetchall()
        }
