"""What Django's cursor does not know of PostgreSQL: COPY, arrays of ids, and the planner."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from psycopg import Copy

_ANEW = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true)"
_AS_BEFORE = "SELECT set_config('plan_cache_mode', 'auto', true)"


def fetch_rows[Row](make: Callable[..., Row], statement: str, parameters: Mapping[str, Any]) -> list[Row]:
    """Return the statement's rows, each made of its columns by their names."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        names = [column.name for column in cursor.description]
        return [make(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


def id_array(ids: Iterable[int]) -> str:
    """Return the ids as PostgreSQL writes an array: of a list the driver looks at each one, for longer."""
    return f"{{{','.join(map(str, ids))}}}"


@contextmanager
def copy_in(cursor: CursorWrapper, statement: str) -> Iterator[Copy]:
    """Begin a COPY. Django wraps the errors of all cursor methods but this one.

    Raises:
        OperationalError: the server has no room or memory for the rows, or is gone.
        DataError, IntegrityError: it refuses a row.
    """
    with connection.wrap_database_errors, cursor.copy(statement) as copy:
        yield copy


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
