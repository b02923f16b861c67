"""The cast: an owner, a teammate who only reads, and an outsider with their own team."""

import os
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.core.management.commands import flush
from django.db import connection, transaction
from pytest_django import DjangoDbBlocker

from config.embedded import postgres
from contextopt.people.models import Role, Team, User
from contextopt.spaces.models import Space
from tests import factories
from tests.template import migrated_template


def pytest_configure() -> None:
    """Start the embedded server before the test database is made, unless DATABASE_URL names another."""
    settings.STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    # The product's queue is in its own database, not in the test's. Nothing takes jobs from this one.
    settings.CELERY_BROKER_URL = "memory://"
    # WhiteNoise would read the whole folder for every test client.
    settings.STATIC_ROOT = None
    # Generated inputs have no deadline, since a busy machine must not fail a test.
    hypothesis.settings.register_profile(
        "contextopt",
        max_examples=1_000 if "THOROUGH" in os.environ else 30,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("contextopt")
    if not settings.DATABASE_URL:
        postgres.ensure_running()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, django_db_blocker: DjangoDbBlocker
) -> None:
    """Copy the tests' database from a migrated one, which takes a tenth of the time of the migrations."""
    with django_db_blocker.unblock():
        connection.settings_dict["TEST"]["TEMPLATE"] = migrated_template()


# The migrations fill these tables, and no test changes them.
FILLED_TABLES = {"auth_permission", "django_content_type"}


@pytest.fixture(scope="session", autouse=True)
def _tables_are_emptied_fast(django_db_setup: None) -> Iterator[None]:
    """Delete the rows after a test that commits, since only few tables have any. Django's TRUNCATE makes new
    files for all tables, and recreating the permissions takes longer than many tests.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(connection.ops), "sql_flush", _sql_flush)
        patch.setattr(flush, "emit_post_migrate_signal", lambda *_: None)
        yield


def _sql_flush(_ops: object, _style: object, tables: list[str], **_options: Any) -> list[str]:
    deletions = [f'DELETE FROM "{table}";' for table in tables if table not in FILLED_TABLES]
    # `replica` turns triggers and foreign keys off, so the order does not matter.
    return ["SET LOCAL session_replication_role = replica", "".join(deletions)]


@pytest.fixture(scope="session", autouse=True)
def _commits_do_not_wait_for_the_disk(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """Save several milliseconds per commit, also in the processes that tests start."""
    name = connection.settings_dict["NAME"]
    if name == settings.DATABASE_PARAMS.get("dbname"):
        return
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
        cursor.execute("SET synchronous_commit = off")


@pytest.fixture(scope="session", autouse=True)
def _no_session_outlives_the_database(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    yield
    connection.close()
    connection.close_pool()
    name = connection.settings_dict["NAME"]
    if name == settings.DATABASE_PARAMS.get("dbname"):
        return  # No test used the database, so this is the product's own.
    # Processes and threads of earlier tests may still be ending. The database cannot be dropped beside them.
    with django_db_blocker.unblock(), connection._nodb_cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])


@pytest.fixture
def team(db: None) -> Team:
    return factories.make_team()


@pytest.fixture
def other_team(db: None) -> Team:
    return factories.make_team("rivals")


@pytest.fixture
def owner(team: Team) -> User:
    return factories.make_user("olga", team, Role.ADMIN)


@pytest.fixture
def teammate(team: Team) -> User:
    return factories.make_user("tom", team, Role.VIEWER)


@pytest.fixture
def outsider(other_team: Team) -> User:
    return factories.make_user("mallory", other_team, Role.ADMIN)


@pytest.fixture
def space(team: Team) -> Space:
    return factories.make_space(team)


@pytest.fixture(scope="module")
def shared(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """One transaction around a module: its objects are made once, and each test finds them unchanged.

    The tests need the mark `django_db`, which rolls their changes back.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)
