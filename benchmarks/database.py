"""A separate database for the benchmarks. It is dropped afterwards, also after an error."""

import contextlib
import os
from collections.abc import Iterator

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from config.embedded import postgres
from contextopt.locks import Lock, take_for_session

DATABASE = "contextopt_bench"


class BusyError(Exception):
    """Another run of the benchmarks uses the server."""


def server_params() -> dict[str, str]:
    """Return the connection parameters of the server in DATABASE_URL, or else of the embedded one, started if
    needed.
    """
    if url := os.environ.get("DATABASE_URL", "").strip():
        return {key: str(value) for key, value in conninfo_to_dict(url).items() if value is not None}
    postgres.ensure_running()
    return postgres.connection_params()


@contextlib.contextmanager
def own_database(params: dict[str, str], *, keep: bool) -> Iterator[str]:
    """Yield the address of the benchmarks' database. With `keep`, it is reused and not dropped.

    Raises:
        BusyError: another run is in progress.
    """
    with psycopg.connect(make_conninfo(**(params | {"dbname": "postgres"})), autocommit=True) as maintenance:
        if not take_for_session(maintenance, Lock.BENCHMARKS):
            raise BusyError("another run of the benchmarks is using this server; wait until it ends")
        if not keep:
            _drop(maintenance)
        _create(maintenance)
        try:
            yield make_conninfo(**(params | {"dbname": DATABASE}))
        finally:
            if not keep:
                _drop(maintenance)


def _create(maintenance: psycopg.Connection[tuple[object, ...]]) -> None:
    existing = maintenance.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
    if existing is None:
        maintenance.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def _drop(maintenance: psycopg.Connection[tuple[object, ...]]) -> None:
    # FORCE closes connections that a killed run has left.
    statement = "DROP DATABASE IF EXISTS {} WITH (FORCE)"
    maintenance.execute(sql.SQL(statement).format(sql.Identifier(DATABASE)))
