"""Checks pooled connections only after a pause, not at every request."""

from time import monotonic
from typing import Any

from psycopg import Connection
from psycopg_pool import ConnectionPool

# After this rest a connection is checked, in case the server was restarted. On a busy connection the
# statement itself fails, and the pool then drops it.
REST_SECONDS = 1.0

_checked_at = "contextopt_checked_at"


def check_rested(connection: Connection[Any]) -> None:
    """Check a connection that has rested; the pool replaces a broken one.

    Raises:
        OperationalError: the connection is broken.
    """
    now = monotonic()
    if now - getattr(connection, _checked_at, 0.0) > REST_SECONDS:
        ConnectionPool.check_connection(connection)
    setattr(connection, _checked_at, now)
