"""The application as the server runs it: pages, bodies and long exports."""

import csv
import io
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.test import Client

from config.asgi import application
from config.site import BLOCK_BYTES
from contextopt.models import Assembly, Role, Scope, Space, Team
from tests import factories
from tests.concurrency import in_own_loop
from tests.dashboard.pages.overview.test_figures import NOW, log_row

ROWS = 1_000


@pytest.fixture
def team(transactional_db: None) -> Team:
    return factories.make_team()


@pytest.fixture
def space(team: Team) -> Space:
    return factories.make_space(team)


def ask(path: str, *, method: str = "GET", body: bytes = b"", **extra: str) -> tuple[int, list[bytes]]:
    """Return the status and the parts of the body in the order in which they were sent."""
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    headers += [(name.encode(), value.encode()) for name, value in extra.items()]
    scope = {
        "type": "http", "method": method, "path": path, "query_string": b"", "headers": headers,
        "scheme": "http", "server": ("localhost", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip

    async def story() -> tuple[int, list[bytes]]:
        page = ApplicationCommunicator(application, scope)
        half = len(body) // 2
        await page.send_input({"type": "http.request", "body": body[:half], "more_body": True})
        await page.send_input({"type": "http.request", "body": body[half:], "more_body": False})
        start: dict[str, Any] = await page.receive_output(10)
        parts = []
        while True:
            part = await page.receive_output(10)
            parts.append(part.get("body", b""))
            if not part.get("more_body"):
                await page.wait(10)
                return start["status"], parts

    return in_own_loop(story())


def test_a_body_in_pieces_is_one_request(space: Space, team: Team) -> None:
    _, key = factories.make_key(team, Scope.ADMIN)
    body = b'{"space": "support", "stage": 4}'
    status, parts = ask("/api/v1/assemblies", method="POST", body=body, authorization=f"Bearer {key}")
    assert status == 201, parts
    assert Assembly.objects.count() == 1


def test_a_long_export_comes_in_blocks_and_whole(space: Space, team: Team) -> None:
    log_row(space, NOW)
    values = Assembly.objects.values().get()
    del values["id"]
    Assembly.objects.bulk_create(Assembly(**values) for _ in range(ROWS - 1))
    client = Client()
    client.force_login(factories.make_user("olga", team, Role.ADMIN))
    cookie = f"sessionid={client.cookies['sessionid'].value}"
    status, parts = ask("/assemblies.csv", cookie=cookie)
    assert status == 200
    sizes = [len(part) for part in parts if part]
    assert len(sizes) > 1
    assert max(sizes) < 2 * BLOCK_BYTES
    assert len(list(csv.reader(io.StringIO(b"".join(parts).decode("utf-8-sig"))))) == ROWS + 1


def test_a_short_page_is_whole(transactional_db: None) -> None:
    status, parts = ask("/healthz")
    assert (status, b"".join(parts)) == (200, b"ok\n")
