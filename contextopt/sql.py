"""Rows of SQL statements, and what Django lacks: COPY, arrays of ids, snapshots, planner control, files."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.migrations import RunSQL
from django.db.models import Model, QuerySet
from psycopg import Copy
from psycopg.conninfo import make_conninfo

from contextopt.errors import NotFound

# Django raises these when the database does not answer, or stops answering.
DATABASE_UNREACHABLE = (OperationalError, InterfaceError)
RETRY_SECONDS = 1.0


def own_conninfo() -> str:
    """Return how to connect to the database outside the pool, with all options of DATABASE_URL.

    The database's name comes from the connection, because tests have databases of their own.
    """
    return make_conninfo(**{**settings.DATABASE_PARAMS, "dbname": connection.settings_dict["NAME"]})


type Parameters = Sequence[Any] | Mapping[str, Any]


def fetch_all(statement: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
    """Return the statement's rows."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def fetch_one(statement: str, parameters: Parameters | None = None) -> tuple[Any, ...] | None:
    """Return the statement's first row, or None without one."""
    return next(iter(fetch_all(statement, parameters)), None)


def fetch_column(statement: str, parameters: Parameters | None = None) -> list[Any]:
    """Return the only column of the statement's rows."""
    return [value for (value,) in fetch_all(statement, parameters)]


def fetch_rows[Row](make: Callable[..., Row], statement: str, parameters: Mapping[str, Any]) -> list[Row]:
    """Return the statement's rows, each built by passing its columns to `make` by name."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        names = [column.name for column in cursor.description]
        return [make(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


def find_one[Row: Model](rows: QuerySet[Row], what: str) -> Row:
    """Return the only row.

    Raises:
        NotFound: there is none; the message names `what`, such as `task 7`.
    """
    row = rows.first()
    if row is None:
        raise NotFound(f"There is no {what}.")
    return row


def execute(statement: str, parameters: Parameters | None = None) -> int:
    """Run the statement; return the number of its rows."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return int(cursor.rowcount)


def id_array(ids: Iterable[int]) -> str:
    """Return the ids as a PostgreSQL array literal. The driver takes longer for a list, checking each id."""
    return f"{{{','.join(map(str, ids))}}}"


@contextmanager
def copy_in(cursor: CursorWrapper, statement: str) -> Iterator[Copy]:
    """Begin a COPY. Django wraps the database errors of every cursor method except this one.

    Raises:
        OperationalError: the server has no room or memory for the rows, or is gone.
        DataError, IntegrityError: it refuses a row.
    """
    with connection.wrap_database_errors, cursor.copy(statement) as copy:
        yield copy


@contextmanager
def planned_anew() -> Iterator[None]:
    """Have each statement planned for its own parameters.

    For these statements a generic plan reads far more than most questions need, which takes several times as
    long as planning. Elsewhere prepared plans are faster.
    """
    connection.ensure_connection()
    driver = connection.connection
    usual = driver.prepare_threshold
    driver.prepare_threshold = None
    try:
        yield
    finally:
        driver.prepare_threshold = usual


@contextmanager
def one_snapshot() -> Iterator[None]:
    """Let every statement of the block read the database as it was at the first one.

    Inside a transaction it has no effect, because earlier statements have fixed the isolation level.
    """
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def expected_rows(statement: str, parameters: Mapping[str, Any]) -> float:
    """Return how many rows the planner expects, from its statistics of the columns."""
    [plans] = fetch_column(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
    rows: float = plans[0]["Plan"]["Plan Rows"]
    return rows


def load_sql(path: str) -> RunSQL:
    """Return the operation that runs this SQL file, for the migration that last changed the file.

    The path is relative to the root of the tree. Undoing the migration leaves the file's definitions.
    """
    return RunSQL((settings.BASE_DIR / path).read_text(), RunSQL.noop)


async def in_thread[**P, R](pool: Executor, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run the work in a thread of the pool, and give its connection back afterwards."""

    def run() -> R:
        try:
            return work(*args, **kwargs)
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(pool, run)


async def until_answered(work: Callable[[], Awaitable[object]]) -> BaseException | None:
    """Do the work, and repeat it while the database cannot be reached. Return any other error, or None."""
    while True:
        task = asyncio.ensure_future(work())
        await asyncio.wait([task])
        error = task.exception()
        if not isinstance(error, DATABASE_UNREACHABLE):
            return error
        await asyncio.sleep(RETRY_SECONDS)
