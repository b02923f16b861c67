"""The registry of searchable tables. Each app registers its own, and one search covers them all."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import models

from contextopt.search.models import SearchableText

# Vectors with more dimensions do not fit into a B-tree entry, which holds at most 2,704 bytes.
DATED_DIMENSIONS = 1_300


@dataclass(frozen=True, slots=True)
class SearchFilters:
    """Filters for hits; None means no filter. A hit has none of `without_types`, and at least one of `tags`.
    `conditions` are (name, values) pairs of the searchable's own filters; a hit matches one of the values of
    each.
    """

    types: tuple[str, ...] | None = None
    without_types: tuple[str, ...] = ()
    sources: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    date_from: datetime | None = None
    date_to: datetime | None = None
    conditions: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_by_date(self) -> bool:
        """Return whether only dates are filtered."""
        return self == SearchFilters(date_from=self.date_from, date_to=self.date_to)


@dataclass(frozen=True, slots=True)
class Searchable:
    """A table with texts and vectors. Column names refer to the table, whose alias in SQL is `t`.

    `corpus_column` isolates: a search covers one corpus, and so do document frequencies. `text_columns` are
    embedded, the body last. A column may be listed twice, so that a title carries weight next to a long body.
    `live_sql` is a condition that all findable rows meet. `decay_sql` is a factor from 0 to 1 by
    age and type, with %(now)s for the time. `date_column` breaks ties. `conditions` maps the names of further
    equality filters to columns. A filter on a column the table lacks matches nothing. `has_windows` means
    that the table is searched by dates: a row's words name the week of its date, and its vector's row stores
    the date.
    """

    name: str
    model: type[SearchableText]
    embedding: type[models.Model]
    owner_column: str
    corpus_column: str
    text_columns: tuple[str, ...]
    live_sql: str
    decay_sql: str | None = None
    type_column: str = "type"
    source_column: str | None = None
    date_column: str = "date"
    tags_column: str = "tags"
    conditions: tuple[tuple[str, str], ...] = ()
    has_windows: bool = False

    def passing(self, corpus_id: int, filters: SearchFilters) -> tuple[str, dict[str, Any]]:
        """Return the SQL condition on `t` that every hit meets, with its parameters.

        Its parameters are named `search_…`. It belongs in each statement before ordering and limit.
        """
        return self._passing(f"t.{self.corpus_column} = %(search_corpus)s", corpus_id, filters)

    def passing_words(self, corpus_id: int, filters: SearchFilters) -> tuple[str, dict[str, Any]]:
        """Return the same condition for rows found by their words, which include the corpus word.

        It hides the corpus from the planner, which would otherwise read all of its rows from another index to
        join the two.
        """
        return self._passing(f"t.{self.corpus_column} + 0 = %(search_corpus)s", corpus_id, filters)

    def _passing(self, corpus_sql: str, corpus_id: int, filters: SearchFilters) -> tuple[str, dict[str, Any]]:
        conditions = [f"({self.live_sql})", corpus_sql]
        parameters: dict[str, Any] = {"search_corpus": corpus_id}
        columns = dict(self.conditions)
        listed = [
            (self.type_column, "search_types", filters.types),
            (self.source_column, "search_sources", filters.sources),
            *((columns.get(name), f"search_{name}", values) for name, values in filters.conditions),
        ]
        for column, name, values in listed:
            if values is not None:
                conditions.append(f"t.{column} = ANY(%({name})s::text[])" if column else "false")
                parameters[name] = list(values)
        if filters.without_types:
            conditions.append(f"t.{self.type_column} <> ALL(%(search_without_types)s::text[])")
            parameters["search_without_types"] = list(filters.without_types)
        if filters.tags is not None:
            conditions.append(f"t.{self.tags_column} && %(search_tags)s::varchar[]")
            parameters["search_tags"] = list(filters.tags)
        if filters.date_from is not None:
            conditions.append(f"t.{self.date_column} >= %(search_from)s")
            parameters["search_from"] = filters.date_from
        if filters.date_to is not None:
            conditions.append(f"t.{self.date_column} <= %(search_to)s")
            parameters["search_to"] = filters.date_to
        return " AND ".join(conditions), parameters

    def rows_sql(self, parameter: str) -> str:
        """Return the rows whose ids are in the named parameter, as the table `t` of a FROM clause.

        The rows are found before any filter applies: a prepared plan may otherwise prefer the index of a
        filter and read everything that matches it.
        """
        return f"(SELECT t.* FROM {self.table} t WHERE t.id = ANY(%({parameter})s::bigint[]) OFFSET 0) AS t"

    def has_dated_index(self, dimensions: int) -> bool:
        """Return whether vectors with these dimensions are also indexed in the order of their rows' dates."""
        return self.has_windows and dimensions <= DATED_DIMENSIONS

    @property
    def table(self) -> str:
        return self.model._meta.db_table

    @property
    def embedding_table(self) -> str:
        return self.embedding._meta.db_table


_REGISTERED: dict[str, Searchable] = {}


def register(searchable: Searchable) -> None:
    """Make a table searchable; registering it again replaces it."""
    _REGISTERED[searchable.name] = searchable


def get(name: str) -> Searchable:
    return _REGISTERED[name]


def find(name: str) -> Searchable | None:
    """Return the table of this name; None if its app is not installed."""
    return _REGISTERED.get(name)


def all() -> tuple[Searchable, ...]:
    """Return everything registered, in the order of registration."""
    return tuple(_REGISTERED.values())
