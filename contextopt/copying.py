"""Rows that are copied in: their refusals are Django's errors, as those of every other statement are."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.backends.utils import CursorWrapper
from psycopg import Copy


@contextmanager
def copy_in(cursor: CursorWrapper, statement: str) -> Iterator[Copy]:
    """Begin a COPY. Django wraps the errors of all cursor methods but this one.

    Raises:
        OperationalError: the server has no room or memory for the rows, or is gone.
        DataError, IntegrityError: it refuses a row.
    """
    with connection.wrap_database_errors, cursor.copy(statement) as copy:
        yield copy
