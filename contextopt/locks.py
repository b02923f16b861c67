"""Locks that let one process run at a time, and let writers and deleters work side by side.

Every advisory lock of the product is named in `Lock` and taken through a function of this module.

Deleting a team or a space deletes everything it owns, and locks the owner's row first. A writer that locks
owned rows holds the owner's row before, so the two never deadlock. Keys of rows never change, so rows are
locked with `no_key`: writers that only refer to a row don't wait for the row's own writer.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from hashlib import blake2b
from typing import Any

import psycopg
import structlog
from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError, OperationalError, connection, transaction
from psycopg.errors import DeadlockDetected, ForeignKeyViolation, LockNotAvailable, QueryCanceled

from contextopt.errors import NotFound

log = structlog.get_logger(__name__)

DEADLOCK_TRIES = 5
DEADLOCK_PAUSE_SECONDS = 0.2

# Tables are locked in the order in which they are named.
HOLD_SPACE = """
SELECT s.id FROM contextopt_team t JOIN contextopt_space s ON s.team_id = t.id
 WHERE s.id = %(space_id)s FOR KEY SHARE OF t, s
"""


class Lock(StrEnum):
    """Every advisory lock of the product. If a lock has keys, each of their values is a lock of its own."""

    BENCHMARKS = "benchmarks"
    COUNT_WORDS = "count_words"
    EMBED = "embed"
    EMBEDDING_CHOICE = "embedding_choice"
    FILL_REVIEW_QUEUES = "fill_review_queues"
    MIGRATE = "migrate"
    PURGE_MEMORIES = "purge_memories"
    ROLLUPS = "rollups"
    SWEEP = "sweep"
    # Key: the backtest's id.
    BACKTEST = "backtest"
    # Key: the evaluation's id.
    EVALUATION = "evaluation"
    # Keys: the API key's id and the Idempotency-Key.
    IDEMPOTENCY = "idempotency"
    # Key: the space's id.
    RECOUNT = "recount"
    # Key: the message's id.
    SENDING = "sending"
    # Key: the team's id.
    REPOSITORIES = "repositories"
    # Keys: the team's id and the reviewer's name.
    REVIEWER = "reviewer"
    # Keys: the searchable's name and the model's id.
    VECTOR_INDEX = "vector_index"
    # Key: the model's id.
    VECTORS = "vectors"
    # Keys: the searchable's name and the corpus's id.
    WORDS = "words"

    def number(self, *keys: object) -> int:
        """Return PostgreSQL's number for the lock: a signed 64-bit hash of its name and keys."""
        text = "\0".join(map(str, (self.value, *keys)))
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), signed=True)


@contextmanager
def only_here(lock: Lock, *keys: object) -> Iterator[bool]:
    """Try to take a lock for the database session; yield whether this session holds it."""
    number = lock.number(*keys)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s::bigint)", [number])
        is_ours = bool(cursor.fetchone()[0])
        try:
            yield is_ours
        finally:
            if is_ours:
                cursor.execute("SELECT pg_advisory_unlock(%s::bigint)", [number])


@contextmanager
def one_after_another(lock: Lock) -> Iterator[None]:
    """Wait for a lock and hold it for the block. The database frees it if the session ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s::bigint)", [lock.number()])
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s::bigint)", [lock.number()])


def wait_turn(lock: Lock, *keys: object) -> None:
    """Wait for a lock and hold it until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s::bigint)", [lock.number(*keys)])


def take_turn(lock: Lock, *keys: object) -> bool:
    """Hold a lock until the transaction ends; return false when someone else has it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s::bigint)", [lock.number(*keys)])
        return bool(cursor.fetchone()[0])


def take_for_session(session: psycopg.Connection[Any], lock: Lock, *keys: object) -> bool:
    """Hold a lock while the session lives; return false when someone else has it."""
    row = session.execute("SELECT pg_try_advisory_lock(%s::bigint)", [lock.number(*keys)]).fetchone()
    return row is not None and bool(row[0])


def hold_team(team_id: int) -> None:
    """Keep the team from being deleted until the transaction ends. Only its deletion waits for this.

    Raises:
        NotFound: the team was deleted in the meantime.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM contextopt_team WHERE id = %s FOR KEY SHARE", [team_id])
        if cursor.fetchone() is None:
            raise NotFound("The team was deleted in the meantime.")


def hold_space(space_id: int) -> None:
    """Keep the space and its team from being deleted until the transaction ends. Only deletions wait for
    this.

    Raises:
        NotFound: the space was deleted in the meantime.
    """
    with connection.cursor() as cursor:
        cursor.execute(HOLD_SPACE, {"space_id": space_id})
        if cursor.fetchone() is None:
            raise NotFound("The space was deleted in the meantime.")


def retry_deadlocks[**P, R](write: Callable[P, R]) -> Callable[P, R]:
    """Run a write in one transaction, and repeat it if PostgreSQL ends it to break a deadlock.

    Use it for large deletions, which meet writers of every kind. Inside a transaction it is a savepoint, and
    its locks are freed as well. The write must change nothing but the database.
    """

    @wraps(write)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        for left in reversed(range(DEADLOCK_TRIES)):
            try:
                with transaction.atomic():
                    # Let this transaction's statements take longer than those of web processes may.
                    with connection.cursor() as cursor:
                        cursor.execute("SET LOCAL statement_timeout = 0")
                    return write(*args, **kwargs)
            except OperationalError as error:
                if not left or not isinstance(error.__cause__, DeadlockDetected):
                    raise
            time.sleep(DEADLOCK_PAUSE_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311
        raise AssertionError("the last try returns or raises")

    return inner


def is_out_of_time(error: BaseException | None) -> bool:
    """Tell whether PostgreSQL ended a statement because it, or its wait for a lock, took too long."""
    return isinstance(error, OperationalError) and isinstance(
        error.__cause__, (LockNotAvailable, QueryCanceled)
    )


def is_about_deleted(error: Exception) -> bool:
    """Tell whether a write failed because its subject was deleted after it was looked up."""
    if isinstance(error, IntegrityError):
        return isinstance(error.__cause__, ForeignKeyViolation)
    return isinstance(error, (NotFound, ObjectDoesNotExist))


@contextmanager
def unless_deleted() -> Iterator[None]:
    """End a job's block quietly if its subject was deleted in the meantime."""
    try:
        yield
    except (IntegrityError, NotFound, ObjectDoesNotExist) as error:
        if not is_about_deleted(error):
            raise
        log.info("deleted_meanwhile", error=str(error))
