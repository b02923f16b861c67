"""Vector indexes, each for one model and table, built while writes continue, and rebuilt if interrupted.

The first is an HNSW graph, which finds the nearest of many vectors. A table that is searched by date has a
second one, which stores whole vectors by date, so comparing all vectors in a window is one index scan.
"""

import select
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import psycopg
import structlog
from django.db import connection
from psycopg.errors import DiskFull, OutOfMemory
from psycopg.pq import ExecStatus

from contextopt.locks import Lock, take_for_session
from contextopt.search.models import EmbeddingModel
from contextopt.search.registry import Searchable
from contextopt.sql import fetch_one, own_conninfo

log = structlog.get_logger(__name__)

# The graph is built in memory as long as it fits. After that, each row takes many times as long.
BUILD_MEMORY = "512MB"


def indexes_of(searchable: Searchable, model: EmbeddingModel) -> dict[str, str]:
    """Return the indexes for the vectors of a model: their names and definitions."""
    size, condition = int(model.dimensions), f"WHERE model_id = {int(model.pk)}"
    table, owner = searchable.embedding_table, searchable.owner_column
    named = f"{searchable.name}_embedding"
    indexes = {
        f"{named}_hnsw_{model.pk}": (
            f"{table} USING hnsw ((embedding::halfvec({size})) halfvec_cosine_ops) {condition}"
        )
    }
    if searchable.has_dated_index(size):
        indexes[f"{named}_dated_{model.pk}"] = (
            f"{table} (corpus_id, date) INCLUDE ({owner}, embedding) {condition}"
        )
    return indexes


def index_is_ready(searchable: Searchable, model: EmbeddingModel) -> bool:
    return all(_is_valid(name) for name in indexes_of(searchable, model))


def _is_valid(name: str) -> bool | None:
    """Return whether the index is complete; None if there is none."""
    row = fetch_one("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [name])
    return None if row is None else bool(row[0])


def build_index(searchable: Searchable, model: EmbeddingModel, *, wait_seconds: float | None) -> bool:
    """Let the server build missing indexes. Return whether all exist after `wait_seconds` (None: no limit).

    For millions of rows a build takes minutes, longer than a job may run. So the server continues without the
    caller, and its session holds a lock until the build ends. An interrupted build, for example by a
    restart, leaves an invalid index, which the next call drops and builds again.
    """
    with _own_connection() as own:
        if not _take_lock(own, searchable, model):
            return False
        for name, definition in indexes_of(searchable, model).items():
            state = _is_valid(name)
            if state is False:
                own.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
            if state is not True and not _create(own, name, definition, wait_seconds):
                return False
    log.info("embedding_index_built", searchable=searchable.name, model=model.name)
    return True


def _create(own: psycopg.Connection, name: str, definition: str, wait_seconds: float | None) -> bool:
    statement = f"CREATE INDEX CONCURRENTLY {name} ON {definition}"
    own.execute(f"SET maintenance_work_mem = '{BUILD_MEMORY}'")
    # Closing the connection must not stop the build.
    own.execute("SET client_connection_check_interval = 0")
    try:
        return _run_for(own, statement, wait_seconds)
    except (DiskFull, OutOfMemory):
        # Parallel workers need shared memory, which a container may lack. Build without them, more slowly.
        own.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        own.execute("SET max_parallel_maintenance_workers = 0")
        return _run_for(own, statement, wait_seconds)


def _run_for(own: psycopg.Connection, statement: str, wait_seconds: float | None) -> bool:
    """Send a statement and wait. Return whether it finished in time; if not, the server continues it.

    Raises:
        psycopg.Error: it failed.
    """
    ends = None if wait_seconds is None else monotonic() + wait_seconds
    own.pgconn.send_query(statement.encode())
    while own.pgconn.is_busy():
        left = None if ends is None else max(0.0, ends - monotonic())
        if not select.select([own.pgconn.socket], [], [], left)[0]:
            return False
        own.pgconn.consume_input()
    result = own.pgconn.get_result()
    if result is not None and result.status != ExecStatus.COMMAND_OK:
        raise psycopg.errors.error_from_result(result)
    while own.pgconn.get_result() is not None:
        pass
    return True


def drop_index(searchable: Searchable, model: EmbeddingModel) -> bool:
    """Drop a retired model's indexes. Return False while one is being built."""
    with _own_connection() as own:
        if not _take_lock(own, searchable, model):
            return False
        for name in indexes_of(searchable, model):
            own.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
    return True


def _take_lock(own: psycopg.Connection, searchable: Searchable, model: EmbeddingModel) -> bool:
    return take_for_session(own, Lock.VECTOR_INDEX, searchable.name, model.pk)


@contextmanager
def _own_connection() -> Iterator[psycopg.Connection]:
    """Connect outside the pool, because a build needs its own settings and may outlive its caller.

    Raises:
        DatabaseError: the server cannot be reached or refused a statement, as with the pool's connections.
    """
    with connection.wrap_database_errors:
        own = psycopg.connect(own_conninfo(), autocommit=True, connect_timeout=3)
        try:
            yield own
        finally:
            own.close()
