"""Checks pooled connections only after they were idle, and limits what their statements may wait for."""

from time import monotonic
from typing import Any

from psycopg import Connection
from psycopg_pool import ConnectionPool

# A connection that was idle for this long is checked, in case the server was restarted. On a busy connection
# the statement itself fails, and the pool then drops it.
IDLE_SECONDS = 1.0

# A request that waits for a lock holds a thread and perhaps other locks. Its client is told to try again.
LOCK_SECONDS = 3
STATEMENT_SECONDS = 60

_checked_at = "contextopt_checked_at"
_limits: list[str] = []


def limit_waits() -> None:
    """Limit statements and their waits for locks in this process. Call this before settings are read."""
    _limits[:] = [f"-c lock_timeout={LOCK_SECONDS}s", f"-c statement_timeout={STATEMENT_SECONDS}s"]


def session_options(given: str = "") -> dict[str, str]:
    """Return libpq's `options`: those of DATABASE_URL, and this process's limits."""
    options = " ".join([given, *_limits]).strip()
    return {"options": options} if options else {}


def check_idle(connection: Connection[Any]) -> None:
    """Check a connection that was idle; the pool replaces a broken one.

    Raises:
        OperationalError: the connection is broken.
    """
    now = monotonic()
    if now - getattr(connection, _checked_at, 0.0) > IDLE_SECONDS:
        ConnectionPool.check_connection(connection)
    setattr(connection, _checked_at, now)
