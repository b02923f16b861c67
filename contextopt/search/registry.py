"""What can be searched: each app registers its tables, and one search covers them all."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import models

from contextopt.search.models import SearchableText

# More do not fit an entry of a B-tree, which is at most 2,704 bytes.
DATED_DIMENSIONS = 1_300


@dataclass(frozen=True, slots=True)
class SearchFilters:
    """What a hit must be; None asks for nothing. Of `tags` a hit has at least one. `conditions`
    are (name, values) pairs of the searchable's own filters, of which it has one value each.
    """

    types: tuple[str, ...] | None = None
    sources: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    date_from: datetime | None = None
    date_to: datetime | None = None
    ids: tuple[int, ...] | None = None
    conditions: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_by_date(self) -> bool:
        """Whether nothing but dates is asked for."""
        return self == SearchFilters(date_from=self.date_from, date_to=self.date_to)


@dataclass(frozen=True, slots=True)
class Searchable:
    """A table with texts and vectors. Column names are of the table, whose alias in SQL is `t`.

    `corpus_column` isolates: a search is of one corpus, and so are document frequencies. `text_columns` are
    what is embedded, the body as the last; a title that is there twice is not lost among the file names and
    figures of a long body. `live_sql` is a condition that holds for all that may be found. `decay_sql` is a
    factor from 0 to 1 by age and type, with %(now)s for the moment; `date_column` orders what is otherwise
    equal. `conditions` maps the names of further equality filters to columns. What a filter asks for and the
    table lacks, nothing passes.
    `has_windows` says that it is searched by dates: the words of a row name the week of its date, and its
    vector's row has the date.
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
        """Return the SQL condition on `t` that every hit fulfils, with its parameters.

        Its parameters are named `search_…`. It goes into each statement before ordering and limit.
        """
        return self._passing(f"t.{self.corpus_column} = %(search_corpus)s", corpus_id, filters)

    def passing_words(self, corpus_id: int, filters: SearchFilters) -> tuple[str, dict[str, Any]]:
        """Return the same condition for rows that are looked up by their words, the corpus's among them.

        It hides the corpus from the planner, who would read all of its rows in another index to join the two.
        """
        return self._passing(f"t.{self.corpus_column} + 0 = %(search_corpus)s", corpus_id, filters)

    def _passing(self, corpus_sql: str, corpus_id: int, filters: SearchFilters) -> tuple[str, dict[str, Any]]:
        conditions = [f"({self.live_sql})", corpus_sql]
        parameters: dict[str, Any] = {"search_corpus": corpus_id}
        for sql, name, value in self._wanted(filters):
            conditions.append(sql)
            parameters[name] = value
        return " AND ".join(conditions), parameters

    def rows_sql(self, parameter: str) -> str:
        """Return the rows whose ids are in the named parameter, as the table `t` of a FROM clause.

        They are found before any filter is looked at: a prepared plan may take the index of a filter for
        the cheaper way, and read all that passes it.
        """
        return f"(SELECT t.* FROM {self.table} t WHERE t.id = ANY(%({parameter})s::bigint[]) OFFSET 0) AS t"

    def has_dated_index(self, dimensions: int) -> bool:
        """Whether vectors of so many dimensions are indexed in the order of their rows' dates too."""
        return self.has_windows and dimensions <= DATED_DIMENSIONS

    def _wanted(self, filters: SearchFilters) -> Iterator[tuple[str, str, object]]:
        columns = dict(self.conditions)
        listed = [
            (self.type_column, "search_types", filters.types),
            (self.source_column, "search_sources", filters.sources),
            *((columns.get(name), f"search_{name}", values) for name, values in filters.conditions),
        ]
        for column, name, values in listed:
            if values is not None:
                sql = f"t.{column} = ANY(%({name})s::text[])" if column else "false"
                yield sql, name, list(values)
        if filters.tags is not None:
            yield f"t.{self.tags_column} && %(search_tags)s::varchar[]", "search_tags", list(filters.tags)
        if filters.date_from is not None:
            yield f"t.{self.date_column} >= %(search_from)s", "search_from", filters.date_from
        if filters.date_to is not None:
            yield f"t.{self.date_column} <= %(search_to)s", "search_to", filters.date_to
        if filters.ids is not None:
            yield "t.id = ANY(%(search_ids)s::bigint[])", "search_ids", list(filters.ids)

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


def all() -> tuple[Searchable, ...]:
    """Return all that is registered, in the order of registration."""
    return tuple(_REGISTERED.values())
