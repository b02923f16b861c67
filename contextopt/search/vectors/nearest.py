"""Search by meaning: find the nearest vectors of one corpus among the rows that pass the filters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from contextopt.search.embedders.current import QueryVector
from contextopt.search.models import SearchCorpus
from contextopt.search.registry import Searchable
from contextopt.sql import expected_rows, fetch_all, fetch_column

# Comparing up to this many rows is as fast as using the graph, and exact.
EXACT_ROWS = 5_000
# Visiting one row through the graph takes as long as comparing this many in sequence. The graph covers all
# corpora, so it visits many rows for each match if few of its rows qualify.
GRAPH_VISIT = 28
# Reading one row by key takes as long as reading this many along the index of dates.
LOOKED_UP = 4
# Skip vectors whose record has changed or been deleted since; read this many extra ones.
SPARE_ROWS = 20
# Compare this many times as many of the newest rows as requested. The best of them bound the distance, which
# excludes nine tenths of all rows from sorting. Sorting a row takes as long as comparing it.
SAMPLED = 10
COUNTED_ROWS = 50_000
# Number of neighbours the graph keeps in view, and maximum rows it visits for a filter.
EF_SEARCH = 120
# Enough to find the nearest row alone.
EF_SEARCH_BEST = 40
SCAN_ROWS = 20_000
# For this transaction. The planner does not know the size of this corpus, and may prefer to sort all of it.
BY_GRAPH = f"""
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', %s, true),
       set_config('hnsw.max_scan_tuples', '{SCAN_ROWS}', true), set_config('enable_sort', 'off', true)
"""
AS_BEFORE = "SELECT set_config('enable_sort', 'on', true)"


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL on the alias t that a row must meet, with its named parameters. The empty condition matches
    everything.

    `dates` are the first and the last date (None is open) if the condition contains nothing else.
    """

    sql: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    dates: tuple[datetime | None, datetime | None] | None = None


NO_CONDITION = Condition(dates=(None, None))


def best_cosines(
    searchable: Searchable, corpus_id: int, vectors: Sequence[QueryVector]
) -> list[float | None]:
    """Return the cosine, from 0 to 1, of the row of the corpus nearest to each vector; None without rows.

    They are read by one statement: from the graph if the corpus is large, else by comparing all rows. The
    vectors are of one model.
    """
    if not vectors:
        return []
    documents = (
        SearchCorpus.objects.of(searchable.name, corpus_id).values_list("documents", flat=True).first()
    )
    statement = _Statement(searchable, corpus_id, vectors[0], NO_CONDITION, 1)
    return statement.best_of([vector.text for vector in vectors], rows=documents)


def nearest(
    searchable: Searchable,
    corpus_id: int,
    vector: QueryVector,
    *,
    condition: Condition = NO_CONDITION,
    limit: int,
    rows: float | None = None,
) -> list[tuple[int, float]]:
    """Return the `limit` nearest live rows of the corpus as (id, cosine from 0 to 1), best first.

    The result is exact if so few rows qualify that comparing all of them is faster, or if the indexes do not
    exist yet. Otherwise it comes from the graph, which may miss a few rows but never returns fewer than there
    are. `rows` is the approximate number of rows of the corpus that meet the condition, if known.
    """
    if limit < 1:
        return []
    statement = _Statement(searchable, corpus_id, vector, condition, limit)
    if searchable.name not in vector.indexed:
        return statement.compare_all()
    rows = statement.count() if rows is None else rows
    by_date = condition.dates is not None and searchable.has_dated_index(vector.dimensions)
    if not is_best_compared(searchable, vector, rows, limit=limit, by_date=by_date):
        found = statement.ask_graph()
    elif by_date:
        found = statement.compare_by_date()
    else:
        return statement.compare_all()
    return found if len(found) == limit else statement.compare_all()


def is_best_compared(
    searchable: Searchable, vector: QueryVector, rows: float, *, limit: int, by_date: bool = False
) -> bool:
    """Return whether comparing all `rows` that qualify is faster than using the graph."""
    visited = limit * max(1.0, vector.indexed[searchable.name] / max(1.0, rows))
    looked_up = rows / LOOKED_UP if by_date else rows
    return rows <= EXACT_ROWS or looked_up <= GRAPH_VISIT * visited


def distance_sql(searchable: Searchable, corpus_id: int, vector: QueryVector) -> tuple[str, dict[str, Any]]:
    """Return the SQL of a row's distance on the alias t, null without a vector, with its parameters."""
    return _Statement(searchable, corpus_id, vector, NO_CONDITION, 0).distance_of_each()


@dataclass(frozen=True, slots=True)
class _Statement:
    searchable: Searchable
    corpus_id: int
    vector: QueryVector
    condition: Condition
    limit: int

    def count(self) -> float:
        """Return the approximate number of rows that qualify, at most `COUNTED_ROWS` without a condition."""
        if self.condition.sql:
            sql = f"SELECT FROM {self.searchable.table} t WHERE {self._passing_sql()}"
            return expected_rows(sql, self._params())
        [count] = fetch_column(
            f"""
            SELECT count(*) FROM (
                SELECT FROM {self.searchable.embedding_table} e
                 WHERE e.model_id = %(model)s AND e.corpus_id = %(corpus)s LIMIT {COUNTED_ROWS}) s
            """,
            {"model": self.vector.model_id, "corpus": self.corpus_id},
        )
        return float(count)

    def compare_all(self) -> list[tuple[int, float]]:
        """Compare every row that passes. The rows are found before any vector is read.

        With all ids in one list, neighbours in the key index come from one descent; a join takes twice as
        long. The `+ 0` hides the order from the graph, which would stop before the end.
        """
        return self._run(
            f"""
            SELECT e.{self._owner}, {self._distance()} + 0 AS distance
              FROM {self.searchable.embedding_table} e
             WHERE e.{self._owner} = ANY(ARRAY(
                       SELECT t.id FROM {self.searchable.table} t WHERE {self._passing_sql()}))
               AND {self._own_vectors()}
             ORDER BY distance, e.{self._owner} DESC LIMIT %(vector_limit)s
            """
        )

    def compare_by_date(self) -> list[tuple[int, float]]:
        """Compare the rows that pass by their vectors' dates, along the index in that order.

        All filters are checked again on the rows, because a vector's stored date may be outdated, and its row
        may have been deleted.
        """
        first, last = self.condition.dates or (None, None)
        bounds = [("e.date >= %(vector_first)s", first), ("e.date <= %(vector_last)s", last)]
        dates = " AND ".join(sql for sql, bound in bounds if bound is not None) or "true"
        dated = f"""{self.searchable.embedding_table} e
                     WHERE {self._own_vectors()} AND {dates}"""
        taken = self.limit + SPARE_ROWS
        return self._run(
            f"""
            SELECT near.{self._owner}, near.distance
              FROM (SELECT e.{self._owner}, {self._distance()} + 0 AS distance
                      FROM {dated}
                       AND {self._distance()} <= (
                           SELECT max(distance) FROM (
                               SELECT {self._distance()} + 0 AS distance FROM (
                                   SELECT e.embedding FROM {dated}
                                    ORDER BY e.corpus_id DESC, e.date DESC LIMIT {SAMPLED * taken}) AS e
                                ORDER BY distance LIMIT {taken}) AS sample)
                     ORDER BY distance, e.{self._owner} DESC LIMIT {taken}) AS near
              JOIN {self.searchable.table} t ON t.id = near.{self._owner}
             WHERE {self._passing_sql()}
             ORDER BY near.distance, near.{self._owner} DESC LIMIT %(vector_limit)s
            """
        )

    def distance_of_each(self) -> tuple[str, dict[str, Any]]:
        distance = f"""(SELECT {self._distance()} FROM {self.searchable.embedding_table} e
                         WHERE e.{self._owner} = t.id AND {self._own_vectors()})"""
        return distance, {"vector": self.vector.text, "vector_corpus": self.corpus_id}

    def ask_graph(self) -> list[tuple[int, float]]:
        """Walk the graph in the order of distance until enough rows pass, or too many were visited."""
        with transaction.atomic(savepoint=False), connection.cursor() as cursor:
            cursor.execute(BY_GRAPH, [str(max(EF_SEARCH, min(self.limit, 1_000)))])
            found = self._run(
                f"""
                SELECT e.{self._owner}, {self._distance()} AS distance
                  FROM {self.searchable.embedding_table} e
                  JOIN {self.searchable.table} t ON t.id = e.{self._owner}
                 WHERE {self._own_vectors()} AND {self._passing_sql()}
                 ORDER BY distance LIMIT %(vector_limit)s
                """
            )
            cursor.execute(AS_BEFORE)
        return found

    def best_of(self, vectors: Sequence[str], *, rows: float | None) -> list[float | None]:
        """Return the cosine of the row nearest to each vector, all of the statement's model."""
        names = [f"vector_{number}" for number in range(len(vectors))]
        size = int(self.vector.dimensions)
        distances = [
            f"(e.embedding::halfvec({size})) <=> (SELECT %({name})s::text::halfvec({size}))" for name in names
        ]
        parameters = {"vector_corpus": self.corpus_id, **dict(zip(names, vectors, strict=True))}
        table = self.searchable.embedding_table
        is_compared = (
            rows is None
            or self.searchable.name not in self.vector.indexed
            or is_best_compared(self.searchable, self.vector, rows, limit=1)
        )
        if is_compared:
            found = ", ".join(f"min({distance})" for distance in distances)
            [best] = fetch_all(f"SELECT {found} FROM {table} e WHERE {self._own_vectors()}", parameters)
        else:
            nearest = ", ".join(
                f"(SELECT {distance} FROM {table} e WHERE {self._own_vectors()} ORDER BY {distance} LIMIT 1)"
                for distance in distances
            )
            with transaction.atomic(savepoint=False), connection.cursor() as cursor:
                cursor.execute(BY_GRAPH, [str(EF_SEARCH_BEST)])
                [best] = fetch_all(f"SELECT {nearest}", parameters)
                cursor.execute(AS_BEFORE)
        return [None if apart is None else to_cosine(apart) for apart in best]

    def _run(self, statement: str) -> list[tuple[int, float]]:
        parameters = {**self._params(), "vector": self.vector.text, "vector_limit": self.limit}
        rows = [(row, to_cosine(distance)) for row, distance in fetch_all(statement, parameters)]
        return sorted(rows, key=lambda row: (-row[1], -row[0]))

    @property
    def _owner(self) -> str:
        return self.searchable.owner_column

    def _own_vectors(self) -> str:
        return f"e.model_id = {int(self.vector.model_id)} AND e.corpus_id = %(vector_corpus)s"

    def _passing_sql(self) -> str:
        searchable = self.searchable
        always = f"({searchable.live_sql}) AND t.{searchable.corpus_column} = %(vector_corpus)s"
        return f"{always} AND ({self.condition.sql})" if self.condition.sql else always

    def _params(self) -> dict[str, Any]:
        first, last = self.condition.dates or (None, None)
        return {
            **self.condition.params,
            "vector_corpus": self.corpus_id,
            "vector_first": first,
            "vector_last": last,
        }

    def _distance(self) -> str:
        # The index is over exactly this expression, and partial, so dimensions and model have to be literals.
        # The inner query reads the vector once; a prepared plan would otherwise read it for every row.
        size = int(self.vector.dimensions)
        vector = f"(SELECT %(vector)s::text::halfvec({size}))"
        return f"((e.embedding::halfvec({size})) <=> {vector})"


def to_cosine(distance: float) -> float:
    """Return the cosine, from 0 to 1. A negative one counts as 0."""
    return min(1.0, max(0.0, 1.0 - distance))
