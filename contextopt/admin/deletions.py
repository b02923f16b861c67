"""Says what a deletion takes along and what stays, in numbers that are counted, not loaded."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import CASCADE, DB_CASCADE, Model

from contextopt.engine.wording import plural
from contextopt.models import ApiKey, Space

DELETING = (CASCADE, DB_CASCADE)

type Named = list[str | list[str]]
"""The rows to be deleted, each followed by a list of notes on it."""


def count_owned(rows: Sequence[Model]) -> dict[str, int]:
    """Return how many rows of each table are deleted with these, by the table's name.

    The tables that the product itself maintains are left out.
    """
    if not rows:
        return {}
    counts = {str(rows[0]._meta.verbose_name_plural): len(rows)}
    keys = [row.pk for row in rows]
    # The admin site is our own: see contextopt/adminsite/site.py.
    site: Any = admin.site
    for model, path in _owned_tables(type(rows[0])):
        if site.is_in_menu(model):
            number = model._base_manager.filter(**{f"{path}__in": keys}).count()
            name = str(model._meta.verbose_name_plural)
            counts |= {name: number} if number else {}
    return counts


def _owned_tables(owner: type[Model]) -> Iterator[tuple[type[Model], str]]:
    """Yield each table whose rows are deleted with the owner's, with the shortest way to the owner."""
    known: set[Any] = {owner}
    waiting: deque[tuple[Any, str]] = deque([(owner, "")])
    while waiting:
        model, way = waiting.popleft()
        for relation in model._meta.related_objects:
            if relation.on_delete in DELETING and relation.related_model not in known:
                path = f"{relation.field.name}__{way}" if way else relation.field.name
                known.add(relation.related_model)
                waiting.append((relation.related_model, path))
                yield relation.related_model, path


def name_rows(rows: Iterable[Model], notes: Callable[[Any], Iterable[str]]) -> Named:
    """Return the rows' names with the notes on each."""
    named: Named = []
    for row in rows:
        named += [str(row), list(notes(row))]
    return named


def notes_on_space(space: Space) -> Iterator[str]:
    """Yield what the deletion of a space changes elsewhere, and what stays."""
    memories: int = space.memories.filter(purged_at=None).count()
    if memories:
        yield f"{plural(memories, 'memory', 'memories')} of the space will be purged."
    keys = ApiKey.objects.filter(space_ids__contains=[space.pk]).count()
    if keys:
        yield f"{plural(keys, 'API key')} limited to it {'loses' if keys == 1 else 'lose'} it."
    yield "Agents' contexts and kept answers that used its records lose their text and keep their figures."
    yield "The change log keeps the space's name. There is no undo."
