"""Helps to run the product's processes on the tests' database."""

import socket

import psycopg
from django.db import connection
from psycopg.conninfo import make_conninfo

from tests.concurrency import wait_until

SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = %s AND pid <> pg_backend_pid()"
)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def database(sessions: str) -> str:
    """Return the tests' database for processes, whose sessions there get this name."""
    used = connection.settings_dict
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    given = {name: used[setting] for name, setting in names.items() if used[setting]}
    return make_conninfo(**given, application_name=sessions)


def wait_for_sessions_to_end(sessions: str) -> None:
    """Wait until no process has a session of this name: the tests' database is dropped only without any."""
    # One connection asks all the time: those just closed are counted for a moment.
    with psycopg.connect(database(sessions), autocommit=True) as own:
        wait_until(lambda: own.execute(SESSIONS, [sessions]).fetchone() == (0,))
