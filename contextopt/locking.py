"""Locks: what only one process should do at a time, and writers beside those who delete what they write to.

A team or a space is deleted with all that it owns, and its row is the first that is locked. Who locks what it
owns, to write more, holds that row before: so the two never wait for each other in a circle. Keys of rows
never change, so rows are locked with `no_key`: who only refers to a row does not wait for its writer.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

import structlog
from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError, OperationalError, connection, transaction
from psycopg.errors import DeadlockDetected, ForeignKeyViolation

from contextopt.errors import NotFound

log = structlog.get_logger(__name__)

DEADLOCK_TRIES = 5
DEADLOCK_PAUSE_SECONDS = 0.2

# Locks are taken in the order in which the tables are named.
HOLD_SPACE = """
SELECT s.id FROM contextopt_team t JOIN contextopt_space s ON s.team_id = t.id
 WHERE s.id = %s FOR KEY SHARE OF t, s
"""


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


def hold_team(team_id: int) -> None:
    """Keep the team from being deleted until the transaction ends. Nobody else waits for it.

    Raises:
        NotFound: the team was deleted meanwhile.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM contextopt_team WHERE id = %s FOR KEY SHARE", [team_id])
        if cursor.fetchone() is None:
            raise NotFound("The team was deleted meanwhile.")


def hold_space(space_id: int) -> None:
    """Keep the space and its team from being deleted until the transaction ends. Nobody else waits for it.

    Raises:
        NotFound: the space was deleted meanwhile.
    """
    with connection.cursor() as cursor:
        cursor.execute(HOLD_SPACE, [space_id])
        if cursor.fetchone() is None:
            raise NotFound("The space was deleted meanwhile.")


def retry_deadlocks[**P, R](write: Callable[P, R]) -> Callable[P, R]:
    """Make a write one transaction that is tried again when it was chosen to end a deadlock.

    For what deletes much: it meets writers of every kind. Inside a transaction it is a savepoint, whose locks
    are given back as well. The write must change nothing but the database.
    """

    @wraps(write)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        for left in reversed(range(DEADLOCK_TRIES)):
            try:
                with transaction.atomic():
                    return write(*args, **kwargs)
            except OperationalError as error:
                if not left or not isinstance(error.__cause__, DeadlockDetected):
                    raise
            time.sleep(DEADLOCK_PAUSE_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311
        raise AssertionError("the last try returns or raises")

    return inner


def is_about_deleted(error: Exception) -> bool:
    """Tell whether a write failed because somebody deleted what it is about after it had been looked up."""
    if isinstance(error, IntegrityError):
        return isinstance(error.__cause__, ForeignKeyViolation)
    return isinstance(error, (NotFound, ObjectDoesNotExist))


@contextmanager
def unless_deleted() -> Iterator[None]:
    """End quietly what a job does with something that is deleted meanwhile."""
    try:
        yield
    except (IntegrityError, NotFound, ObjectDoesNotExist) as error:
        if not is_about_deleted(error):
            raise
        log.info("deleted_meanwhile", error=str(error))
