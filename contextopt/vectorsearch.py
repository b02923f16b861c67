"""Search by meaning: the nearest vectors of one corpus, among the rows that pass the filters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from contextopt.embedding import EmbeddingUnavailable, Vectors, get_embedder
from contextopt.models import EmbeddingState
from contextopt.searchables import Searchable

# Up to so many rows of a corpus, comparing all is as fast as the index, and exact. Where a filter is to let
# pass so many, the index would visit too much of the rest.
EXACT_ROWS = 5_000
EXACT_PASSING = 5_000
# How many neighbours the index keeps in view, and how many rows it visits at most for a filter.
EF_SEARCH = 120
SCAN_ROWS = 20_000
# For this transaction. The planner, who does not know this corpus, may take sorting all of it for cheaper.
BY_INDEX = f"""
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', %s, true),
       set_config('hnsw.max_scan_tuples', '{SCAN_ROWS}', true), set_config('enable_sort', 'off', true),
       set_config('plan_cache_mode', 'force_custom_plan', true)
"""
AS_BEFORE = "SELECT set_config('enable_sort', 'on', true), set_config('plan_cache_mode', 'auto', true)"


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A question's vector, (d,), of unit length, and the model it can be compared under.

    `indexed` names the searchables whose vectors of this model have an index.
    """

    model_id: int
    dimensions: int
    values: Vectors
    indexed: frozenset[str] = frozenset()

    def to_sql(self) -> str:
        return "[" + ",".join(f"{value:.6g}" for value in self.values.tolist()) + "]"


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL on the alias t that a row must fulfil, with its named parameters; the empty one lets all pass."""

    sql: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)


NO_CONDITION = Condition()

_ACTIVE_SQL = f"""
SELECT m.id, m.name, m.dimensions,
       ARRAY(SELECT f.searchable::text FROM contextopt_embeddingfill f
              WHERE f.model_id = m.id AND f.is_indexed)
  FROM contextopt_embeddingmodel m WHERE m.state = '{EmbeddingState.ACTIVE}'
"""


def embed_query(text: str) -> QueryVector | None:
    """Return the text's vector under the model in force; None when there is none, or nothing to embed.

    Raises:
        EmbeddingUnavailable: the model cannot be loaded or reached.
    """
    if not text.strip():
        return None
    with connection.cursor() as cursor:
        cursor.execute(_ACTIVE_SQL)
        row = cursor.fetchone()
    if row is None:
        return None
    model_id, name, dimensions, indexed = row
    vector = get_embedder(name).embed([text])[0]
    if vector.shape != (dimensions,):
        raise EmbeddingUnavailable(f"{name} gives {vector.size} dimensions, not {dimensions}")
    return QueryVector(model_id, dimensions, vector, frozenset(indexed)) if np.any(vector) else None


def nearest(
    searchable: Searchable,
    corpus_id: int,
    vector: QueryVector,
    *,
    condition: Condition = NO_CONDITION,
    limit: int,
) -> list[tuple[int, float]]:
    """Return the `limit` live rows of the corpus that are nearest, as (id, cosine from 0 to 1), best first.

    Exact where the corpus or what passes the filter is small, or the index is not there yet; else by the
    index, which may miss a few. It never gives fewer than there are.
    """
    if limit < 1:
        return []
    statement = _Statement(searchable, corpus_id, vector, condition, limit)
    if searchable.name not in vector.indexed or statement.is_small():
        return statement.compare_all()
    found = statement.ask_index()
    return found if len(found) == limit else statement.compare_all()


def similarities(
    searchable: Searchable, corpus_id: int, vector: QueryVector, ids: Sequence[int]
) -> dict[int, float]:
    """Return the cosine, 0 to 1, of those of the rows that are live, in the corpus, and have a vector."""
    if not ids:
        return {}
    only = Condition("t.id = ANY(%(vector_ids)s::bigint[])", {"vector_ids": list(ids)})
    return dict(_Statement(searchable, corpus_id, vector, only, len(ids)).compare_all())


def compare(
    searchable: Searchable, corpus_id: int, vector: QueryVector, condition: Condition
) -> dict[int, float | None]:
    """Return all live rows of the corpus that fulfil the condition, with their cosine or None."""
    return _Statement(searchable, corpus_id, vector, condition, 0).compare_each()


@dataclass(frozen=True, slots=True)
class _Statement:
    searchable: Searchable
    corpus_id: int
    vector: QueryVector
    condition: Condition
    limit: int

    def is_small(self) -> bool:
        """Whether so few rows come into question that comparing all of them is the better way."""
        with connection.cursor() as cursor:
            cursor.execute(
                f"""
                SELECT count(*) FROM (
                    SELECT FROM {self.searchable.embedding_table} e
                     WHERE e.model_id = %(model)s AND e.corpus_id = %(corpus)s LIMIT {EXACT_ROWS + 1}) s
                """,
                {"model": self.vector.model_id, "corpus": self.corpus_id},
            )
            rows: int = cursor.fetchone()[0]
            return rows <= EXACT_ROWS or (bool(self.condition.sql) and self._passing(cursor) <= EXACT_PASSING)

    def _passing(self, cursor: CursorWrapper) -> float:
        """Return how many rows the planner, who keeps statistics of each column, expects to pass."""
        cursor.execute(
            f"EXPLAIN (FORMAT JSON) SELECT FROM {self.searchable.table} t WHERE {self._passing_sql()}",
            self._params(),
        )
        rows: float = cursor.fetchone()[0][0]["Plan"]["Plan Rows"]
        return rows

    def compare_all(self) -> list[tuple[int, float]]:
        """Compare every row that passes; they are found before any vector is looked at.

        What is added hides the order from the index, which would break off before the end.
        """
        return self._run(
            f"""
            WITH passing AS MATERIALIZED (
                 SELECT t.id FROM {self.searchable.table} t WHERE {self._passing_sql()})
            SELECT e.{self._owner}, {self._distance()} AS distance
              FROM passing t JOIN {self.searchable.embedding_table} e ON e.{self._owner} = t.id
             WHERE {self._own_vectors()}
             ORDER BY {self._distance()} + 0 LIMIT %(vector_limit)s
            """
        )

    def compare_each(self) -> dict[int, float | None]:
        """Return the rows that pass, also those without a vector."""
        distance = f"""
            SELECT {self._distance()} FROM {self.searchable.embedding_table} e
             WHERE e.{self._owner} = t.id AND {self._own_vectors()}"""
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT t.id, ({distance}) FROM {self.searchable.table} t WHERE {self._passing_sql()}",
                {**self._params(), "vector": self.vector.to_sql()},
            )
            return {row: None if found is None else _to_cosine(found) for row, found in cursor.fetchall()}

    def ask_index(self) -> list[tuple[int, float]]:
        """Go through the index in the order of distance until enough rows pass, or too many were visited."""
        with transaction.atomic(savepoint=False), connection.cursor() as cursor:
            cursor.execute(BY_INDEX, [str(max(EF_SEARCH, min(self.limit, 1_000)))])
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

    def _run(self, statement: str) -> list[tuple[int, float]]:
        with connection.cursor() as cursor:
            cursor.execute(
                statement, {**self._params(), "vector": self.vector.to_sql(), "vector_limit": self.limit}
            )
            rows = [(row, _to_cosine(distance)) for row, distance in cursor.fetchall()]
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
        return {**self.condition.params, "vector_corpus": self.corpus_id}

    def _distance(self) -> str:
        # The index is over this very expression, and partial: dimensions and model have to be literals. The
        # inner query reads the vector once; a prepared statement's plan would read it for every row.
        size = int(self.vector.dimensions)
        vector = f"(SELECT %(vector)s::text::halfvec({size}))"
        return f"((e.embedding::halfvec({size})) <=> {vector})"


def _to_cosine(distance: float) -> float:
    return min(1.0, max(0.0, 1.0 - distance))
