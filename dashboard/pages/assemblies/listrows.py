"""The rows of one page of the list: newest first, sorted by a figure, or with given words."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from contextopt.assemblies.figures import SORTS
from contextopt.assemblies.models import Assembly, AssemblyQuerySet
from contextopt.inputs import read_digits
from dashboard.kit.responses import PAGE_ROWS, Page, newest_page

# No index has the order of a figure, so only this many of the newest rows are sorted: 30 ms.
SORTED_ROWS = 10_000
# Texts have no index either. Reading this many of 8 kB each takes 50 ms a word.
SEARCHED_ROWS = 1_000
WORDS_MAX = 8

ORDERS = {sort.slug: sort.order for sort in SORTS}


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page, and which part of the log it covers if that is not all of it.

    `sorted_rows` is the number of newest rows that were sorted. `searched_to` is the time of the oldest row
    that was searched; None if all were.
    """

    page: Page[Assembly]
    sorted_rows: int | None = None
    searched_to: datetime | None = None


def read_list(found: AssemblyQuerySet, *, sort: str, words: str, cursor: str) -> ListPage:
    """Return a page of the assemblies found; a sort order applies only without words."""
    found = found.select_related("space", "config")
    if words:
        return _matching_page(found, words, cursor)
    if sort:
        return _sorted_page(found, sort, cursor)
    return ListPage(newest_page(found, "created_at", cursor))


def _sorted_page(found: AssemblyQuerySet, sort: str, cursor: str) -> ListPage:
    """Return a page of the newest rows, sorted; the cursor is the number of rows before the page."""
    offset = min(read_digits(cursor) or 0, SORTED_ROWS)
    newest = found.select_related(None).newest_first()
    window = newest[:SORTED_ROWS].values("pk")
    ordered = found.model.objects.filter(pk__in=window).with_saving().order_by(ORDERS[sort], "-id")
    rows = list(ordered.select_related("space", "config")[offset : offset + PAGE_ROWS + 1])
    older = str(offset + PAGE_ROWS) if len(rows) > PAGE_ROWS else ""
    has_more = newest[SORTED_ROWS : SORTED_ROWS + 1].exists()
    return ListPage(Page(rows[:PAGE_ROWS], older, offset == 0), SORTED_ROWS if has_more else None)


def _matching_page(found: AssemblyQuerySet, words: str, cursor: str) -> ListPage:
    """Return the rows with all words in question or text, among the next rows after the cursor."""
    searched = newest_page(
        found.only("id", "created_at", "space", "config"), "created_at", cursor, SEARCHED_ROWS
    )
    ids = [row.pk for row in searched.rows]
    matching = (
        found.model.objects.filter(pk__in=ids).filter(_has_words(words)).select_related("space", "config")
    )
    page = newest_page(matching, "created_at", "")
    older = page.older or searched.older
    oldest = page.rows[-1] if page.older else searched.rows[-1] if searched.older else None
    return ListPage(
        Page(page.rows, older, searched.is_first), searched_to=oldest.created_at if oldest else None
    )


def _has_words(words: str) -> Q:
    """Match rows that have every word, in any case, in the question or in the context's text."""
    condition = Q()
    for word in words.split()[:WORDS_MAX]:
        condition &= Q(payload__text__icontains=word) | Q(payload__request__query__icontains=word)
    return condition


FASTEST_SECONDS = 2
SLOWEST_SECONDS = 15
# About an hour without news. Then the page says that it has stopped.
MAX_QUIET = 240


@dataclass(frozen=True, slots=True)
class Tail:
    """When to poll next: `newest` is the last id seen, `quiet` the number of polls without anything newer."""

    newest: int
    quiet: int

    @property
    def seconds(self) -> int:
        return min(SLOWEST_SECONDS, FASTEST_SECONDS + self.quiet)

    @property
    def is_over(self) -> bool:
        return self.quiet >= MAX_QUIET


def follow(page: Page[Assembly], asked: Mapping[str, str]) -> Tail:
    """Compare the current list with what the polling page had seen."""
    newest = page.rows[0].pk if page.rows else 0
    is_news = (read_digits(asked.get("newest", "")) or 0) != newest
    return Tail(newest, 0 if is_news else (read_digits(asked.get("quiet", "")) or 0) + 1)
