"""Statements whose best plan depends on what is asked, and what the planner knows of them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

_ANEW = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true)"
_AS_BEFORE = "SELECT set_config('plan_cache_mode', 'auto', true)"


@contextmanager
def planned_anew() -> Iterator[None]:
    """Have each statement planned for its own parameters, in one transaction.

    A plan for any words and any dates reads what most questions never need: it takes several times as long
    as planning does. Elsewhere prepared plans are the faster way.
    """
    is_inside = connection.in_atomic_block
    with transaction.atomic(savepoint=False), connection.cursor() as cursor:
        cursor.execute(_ANEW)
        yield
        # The end of its own transaction takes the setting back.
        if is_inside:
            cursor.execute(_AS_BEFORE)


def expected_rows(statement: str, parameters: Mapping[str, Any]) -> float:
    """Return how many rows the planner, who keeps statistics of each column, expects of the statement."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
        rows: float = cursor.fetchone()[0][0]["Plan"]["Plan Rows"]
        return rows
