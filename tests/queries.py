"""Counts the queries that something sends to the database."""

from collections.abc import Callable

from django.db import connection
from django.test.utils import CaptureQueriesContext


def count_queries(ask: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as queries:
        ask()
    return len(queries)


def count_at_2_and_20(ask: Callable[[], object], grow: Callable[[], object]) -> list[int]:
    """Count the queries of `ask` beside 2 rows and beside 20, each made by `grow`."""
    counts = []
    for more in (2, 18):
        for _ in range(more):
            grow()
        counts.append(count_queries(ask))
    return counts
