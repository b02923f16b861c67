"""Connections that are asked whether they live only after a pause, not at every request."""

from time import monotonic
from typing import Any

from psycopg import Connection
from psycopg_pool import ConnectionPool

# A server that was restarted is noticed by a connection that rested this long; a busy one finds out by
# its own statement, and the pool then drops it.
REST_SECONDS = 1.0

_checked_at = "contextopt_checked_at"


def check_rested(connection: Connection[Any]) -> None:
    """Ask a connection that has rested for a sign of life; the pool replaces it when there is none.

    Raises:
        OperationalError: the connection is broken.
    """
    now = monotonic()
    if now - getattr(connection, _checked_at, 0.0) > REST_SECONDS:
        ConnectionPool.check_connection(connection)
    setattr(connection, _checked_at, now)
