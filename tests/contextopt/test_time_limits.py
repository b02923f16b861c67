"""A statement that takes too long, or waits too long for a lock, ends with a 503 and changes nothing."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from django.db import connection, transaction
from django.test import Client

from config.embedded.place import BASE_DIR
from config.pooling import LOCK_SECONDS, STATEMENT_SECONDS
from contextopt.locks import retry_deadlocks
from contextopt.people.models import Role, Team
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import lock_space
from tests import factories
from tests.concurrency import beside, wait_until
from tests.contextopt.api.conftest import make_caller

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def team() -> Team:
    return factories.make_team()


@pytest.fixture
def space(team: Team) -> Space:
    return factories.make_space(team)


@contextmanager
def limit(name: str, value: str) -> Iterator[None]:
    """Limit this thread's connection. It goes back to the pool without the limit."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET {name} = '{value}'")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"RESET {name}")


@pytest.fixture
def limited() -> Iterator[None]:
    with limit("lock_timeout", "50ms"):
        yield


@contextmanager
def held(space: Space) -> Iterator[None]:
    """Keep the space's writers out from another connection."""
    is_held, is_over = [], []

    def hold() -> None:
        with transaction.atomic():
            lock_space(space)
            is_held.append(True)
            wait_until(lambda: bool(is_over))

    holding = beside(hold)
    wait_until(lambda: bool(is_held))
    try:
        yield
    finally:
        is_over.append(True)
        holding.result(timeout=60)


@pytest.mark.usefixtures("limited")
def test_the_api_says_that_another_writer_took_too_long(space: Space, team: Team) -> None:
    api = make_caller(team)
    rows = {"records": [{"title": "A", "external_id": "1"}]}
    headers = {"Idempotency-Key": "bulk"}
    with held(space):
        response = api.post("/spaces/support/records/bulk", rows, headers=headers)
    assert response.status_code == 503, response.content
    assert response.json()["type"] == "urn:contextopt:problem:busy"
    assert int(response["Retry-After"]) > 0
    assert not Record.objects.exists()
    assert api.post("/spaces/support/records/bulk", rows, headers=headers).json()["created"] == 1


@pytest.mark.usefixtures("limited")
def test_a_page_says_that_another_writer_took_too_long(space: Space, team: Team) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(factories.make_user("olga", team, Role.ADMIN))
    record = factories.make_record(space)
    with held(space):
        response = client.post(f"/spaces/{space.slug}/records/{record.pk}/delete")
    assert response.status_code == 503, response.content
    assert int(response["Retry-After"]) > 0
    assert "Another request was writing there" in response.content.decode()
    record.refresh_from_db()
    assert record.deleted_at is None


@pytest.mark.parametrize("module", ["config.asgi", "config.wsgi"])
def test_web_processes_set_limits(module: str) -> None:
    shown = (
        f"import {module}; from django.conf import settings; print(settings.DATABASES['default']['OPTIONS'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", shown], cwd=BASE_DIR, capture_output=True, text=True, check=True, timeout=120
    )
    limits = f"-c lock_timeout={LOCK_SECONDS}s -c statement_timeout={STATEMENT_SECONDS}s"
    assert limits in done.stdout


def test_other_processes_take_their_time() -> None:
    def read() -> str:
        try:
            return _read_limit("lock_timeout")
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(read).result() == "0"


def _read_limit(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        limit: str = cursor.fetchone()[0]
        return limit


def test_a_large_deletion_takes_its_time(team: Team) -> None:
    @retry_deadlocks
    def delete() -> str:
        return _read_limit("statement_timeout")

    with limit("statement_timeout", "50s"):
        assert delete() == "0"
        assert _read_limit("statement_timeout") == "50s"
