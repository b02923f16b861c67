"""Locks of the database session: what only one process should do at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def only_here(number: int) -> Iterator[bool]:
    """Take an advisory lock of the database session; says whether nobody else has it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [number])
        is_ours = bool(cursor.fetchone()[0])
        try:
            yield is_ours
        finally:
            if is_ours:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [number])
