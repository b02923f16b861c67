"""Checks pooled connections only after they were idle, not at every request."""

from time import monotonic
from typing import Any

from psycopg import Connection
from psycopg_pool import ConnectionPool

# A connection that was idle for this long is checked, in case the server was restarted. On a busy connection
# the statement itself fails, and the pool then drops it.
IDLE_SECONDS = 1.0

_checked_at = "contextopt_checked_at"


def check_idle(connection: Connection[Any]) -> None:
    """Check a connection that was idle; the pool replaces a broken one.

    Raises:
        OperationalError: the connection is broken.
    """
    now = monotonic()
    if now - getattr(connection, _checked_at, 0.0) > IDLE_SECONDS:
        ConnectionPool.check_connection(connection)
    setattr(connection, _checked_at, now)
