"""What can be searched: each app registers its tables, and one search covers them all."""

from dataclasses import dataclass

from django.db import models

from contextopt.models.searching import SearchableText


@dataclass(frozen=True, slots=True)
class Searchable:
    """A table with texts and vectors. Column names are of the table, whose alias in SQL is `t`.

    `corpus_column` isolates: a search is of one corpus, and so are document frequencies. `live_sql` is a
    condition that holds for all that may be found. `decay_sql` is a factor from 0 to 1 by age and type,
    with %(now)s for the moment; `date_column` orders what is otherwise equal. `conditions` maps the names
    of further equality filters to columns. What a filter asks for and the table lacks, nothing passes.
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
