"""Prepares for commands: starts the embedded server and brings its schema up to date."""

import sys
from collections.abc import Sequence

import django
import psycopg
from django.conf import settings
from django.core.management import call_command, get_commands
from django.db import connection, connections
from django.db.migrations.exceptions import NodeNotFoundError
from django.db.migrations.executor import MigrationExecutor
from psycopg.conninfo import make_conninfo

from config.embedded import postgres
from config.embedded.place import SetupError
from contextopt.locks import Lock, one_after_another

HELP_FLAGS = {"-h", "--help", "--version"}
WITHOUT_DATABASE = {
    "collectstatic",
    "compilemessages",
    "diffsettings",
    "findstatic",
    "help",
    "makemessages",
    "startapp",
    "startproject",
    "version",
}
# These compare, change or replace the schema themselves.
WITHOUT_MIGRATION = {
    "check",
    "makemigrations",
    "migrate",
    "optimizemigration",
    "showmigrations",
    "sqlmigrate",
    "test",
}

CONNECT_SECONDS = "5"
OLDEST_SERVER = 160_000


def prepare_for(arguments: Sequence[str]) -> None:
    """Start the embedded server and apply pending migrations, where the command needs them.

    A server named by DATABASE_URL is neither started nor migrated here.

    Raises:
        SetupError: the command's database cannot be used.
    """
    if not arguments or HELP_FLAGS & set(arguments):
        return
    command = arguments[0]
    if command in WITHOUT_DATABASE:
        return
    django.setup()
    if command not in get_commands():
        return
    if settings.DATABASE_URL:
        check_server()
        return
    postgres.ensure_running()
    if command not in WITHOUT_MIGRATION:
        migrate_if_pending()


def check_server() -> None:
    """Ask the server of DATABASE_URL once. The pool would repeat attempts without giving the reason.

    Raises:
        SetupError: it refuses the connection, or is too old.
    """
    try:
        address = make_conninfo(**{"connect_timeout": CONNECT_SECONDS, **settings.DATABASE_PARAMS})
        with psycopg.connect(address) as server:
            version = server.info.server_version
    except psycopg.OperationalError as error:
        raise SetupError(f"The database of DATABASE_URL cannot be reached: {error}") from None
    if version < OLDEST_SERVER:
        raise SetupError(
            f"DATABASE_URL names a PostgreSQL {version // 10_000}; use {OLDEST_SERVER // 10_000} or newer"
        )


def migrate_if_pending() -> None:
    """Apply pending migrations and make the default team, once, however many processes ask at once."""
    from contextopt.people.models import Team

    try:
        if count_pending():
            with one_after_another(Lock.MIGRATE):
                if pending := count_pending():
                    call_command("migrate", verbosity=0, interactive=False)
                    print(f"Applied {pending} database migrations.", file=sys.stderr)
        Team.objects.ensure_default()
    finally:
        # Processes that the command forks must not inherit a pooled connection.
        for each in connections.all(initialized_only=True):
            each.close()
            each.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's wrapper has it


def count_pending() -> int:
    """Return how many migrations the database lacks.

    Raises:
        SetupError: it also lacks migrations that this version no longer has.
    """
    try:
        executor = MigrationExecutor(connection)
    except NodeNotFoundError as error:
        raise SetupError(
            "An older version used this database last. Upgrade in two steps, as docs/operating.md says under "
            f"Upgrade. {error}"
        ) from None
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
