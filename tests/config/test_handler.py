"""The application as the server runs it: pages, bodies and long exports."""

import asyncio
import csv
import io
import threading
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest
from asgiref.testing import ApplicationCommunicator
from django.db import connection, transaction
from django.test import Client

from config.asgi import application
from config.handler import BLOCK_BYTES, BODY_MAX_BYTES, EXPORTS_AT_ONCE, REQUESTS_AT_ONCE, Site
from contextopt.asgitypes import Scope as AsgiScope
from contextopt.assemblies.models import Assembly
from contextopt.fairness import WAITING_MAX
from contextopt.people.logins import WRONG_KEYS
from contextopt.people.models import Role, Scope, Team
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import lock_space
from contextopt.sql import own_conninfo
from tests import factories
from tests.concurrency import in_own_loop, somebody_waits, wait_until
from tests.dashboard.pages.overview.test_figures import NOW, log_row

ROWS = 1_000


@pytest.fixture
def team(transactional_db: None) -> Team:
    return factories.make_team()


@pytest.fixture
def space(team: Team) -> Space:
    return factories.make_space(team)


def call(path: str, method: str = "GET", **extra: str) -> ApplicationCommunicator:
    """Begin a request. Its body is sent by the caller."""
    return ApplicationCommunicator(application, describe(path, method, **extra))


def describe(path: str, method: str = "GET", **extra: str) -> AsgiScope:
    """Return the scope of a request."""
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    headers += [(name.replace("_", "-").encode(), value.encode()) for name, value in extra.items()]
    return {
        "type": "http", "method": method, "path": path, "query_string": b"", "headers": headers,
        "scheme": "http", "server": ("localhost", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip


async def send(page: ApplicationCommunicator, body: bytes, *, more: bool = False) -> None:
    await page.send_input({"type": "http.request", "body": body, "more_body": more})


async def read(page: ApplicationCommunicator) -> tuple[int, list[bytes]]:
    """Return the status and the parts of the body in the order in which they were sent."""
    start: dict[str, Any] = await page.receive_output(10)
    parts = []
    while True:
        part = await page.receive_output(10)
        parts.append(part.get("body", b""))
        if not part.get("more_body"):
            await page.wait(10)
            return start["status"], parts


def ask(path: str, *, method: str = "GET", body: bytes = b"", **extra: str) -> tuple[int, list[bytes]]:
    async def story() -> tuple[int, list[bytes]]:
        page, half = call(path, method, **extra), len(body) // 2
        await send(page, body[:half], more=True)
        await send(page, body[half:])
        return await read(page)

    return in_own_loop(story())


def test_a_body_in_pieces_is_one_request(space: Space, team: Team) -> None:
    _, key = factories.make_key(team, Scope.ADMIN)
    body = b'{"space": "support", "stage": 4}'
    status, parts = ask("/api/v1/assemblies", method="POST", body=body, authorization=f"Bearer {key}")
    assert status == 201, parts
    assert Assembly.objects.count() == 1


def test_clients_that_send_slowly_hold_nobody_up(transactional_db: None) -> None:
    async def story() -> tuple[int, list[bytes]]:
        slow = [call("/api/v1/assemblies", "POST", content_length="9") for _ in range(2 * REQUESTS_AT_ONCE)]
        for page in slow:
            await send(page, b"{", more=True)
            assert await page.receive_nothing()
        other = call("/healthz")
        await send(other, b"")
        answer = await read(other)
        for page in slow:
            await page.send_input({"type": "http.disconnect"})
            await page.wait(10)
        return answer

    assert in_own_loop(story()) == (200, [b"ok\n"])


def test_a_body_that_breaks_off_is_the_clients_fault(transactional_db: None) -> None:
    """The server reports chunks that are none as a disconnect. Without an answer, it would send a 500."""

    async def story() -> tuple[int, list[bytes]]:
        page = call("/api/v1/assemblies", "POST", content_length="9")
        await send(page, b"{", more=True)
        await page.send_input({"type": "http.disconnect"})
        return await read(page)

    assert in_own_loop(story()) == (400, [b"The body ended too early."])


@pytest.mark.parametrize("path", ["/accounts/login/", "/api/v1/assemblies"])
def test_a_body_that_stalls_is_refused(path: str, transactional_db: None, settings: Any) -> None:
    settings.BODY_STALL_SECONDS = 1

    async def story() -> tuple[dict[str, Any], dict[str, Any]]:
        page = call(path, "POST", content_length="9")
        await send(page, b"{", more=True)
        return await page.receive_output(10), await page.receive_output(10)

    start, body = in_own_loop(story())
    assert (start["status"], body["body"]) == (408, b"The body did not arrive in time.")
    assert (b"Connection", b"close") in start["headers"]


def test_a_body_without_end_is_refused(space: Space, team: Team) -> None:
    _, key = factories.make_key(team, Scope.ADMIN)
    piece = b" " * 2**20

    async def story() -> tuple[int, list[bytes]]:
        length = str(2**40)
        page = call("/api/v1/assemblies", "POST", content_length=length, authorization=f"Bearer {key}")
        for _ in range(BODY_MAX_BYTES // len(piece) + 2):
            await send(page, piece, more=True)
        return await read(page)

    status, parts = in_own_loop(story())
    assert status == 413, parts


@pytest.fixture
def cookie(space: Space, team: Team) -> str:
    """Log rows for a long export, and log in."""
    log_row(space, NOW)
    values = Assembly.objects.values().get()
    del values["id"]
    Assembly.objects.bulk_create(Assembly(**values) for _ in range(ROWS - 1))
    return log_in("olga", team)


def log_in(name: str, team: Team) -> str:
    """Return the session cookie of a new admin of the team."""
    client = Client()
    client.force_login(factories.make_user(name, team, Role.ADMIN))
    return f"sessionid={client.cookies['sessionid'].value}"


def test_a_long_export_comes_in_blocks_and_whole(cookie: str) -> None:
    status, parts = ask("/assemblies.csv", cookie=cookie)
    assert status == 200
    sizes = [len(part) for part in parts if part]
    assert len(sizes) > 1
    assert max(sizes) < 2 * BLOCK_BYTES
    assert len(list(csv.reader(io.StringIO(b"".join(parts).decode("utf-8-sig"))))) == ROWS + 1


def test_exports_that_nobody_reads_to_the_end_make_room(cookie: str) -> None:
    async def story() -> tuple[int, list[bytes]]:
        for _ in range(EXPORTS_AT_ONCE + 1):
            left = call("/assemblies.csv", cookie=cookie)
            await send(left, b"")
            await left.receive_output(10)
            await left.send_input({"type": "http.disconnect"})
            await left.wait(10)
        page = call("/assemblies.csv", cookie=cookie)
        await send(page, b"")
        return await read(page)

    status, parts = in_own_loop(story())
    assert (status, len(b"".join(parts).splitlines())) == (200, ROWS + 1)


def test_exports_that_nobody_reads_keep_nothing_else_waiting(cookie: str, settings: Any) -> None:
    settings.WHITENOISE_USE_FINDERS = True
    site = Site()

    other = log_in("rita", factories.make_team("rival"))

    async def story() -> list[tuple[int, list[bytes]]]:
        stuck, is_read = asyncio.Semaphore(0), asyncio.Event()

        async def send_slowly(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.body":
                stuck.release()
                await is_read.wait()

        async with asyncio.TaskGroup() as exports:
            for _ in range(EXPORTS_AT_ONCE // 2):
                asked = asyncio.Queue[Mapping[str, Any]]()
                asked.put_nowait({"type": "http.request"})
                scope = describe("/assemblies.csv", cookie=cookie)
                exports.create_task(site(scope, asked.get, send_slowly))
                await stuck.acquire()
            left = asyncio.Queue[Mapping[str, Any]]()
            left.put_nowait({"type": "http.request"})
            left.put_nowait({"type": "http.disconnect"})
            await asyncio.wait_for(site(describe("/assemblies.csv", cookie=cookie), left.get, send_slowly), 5)
            answers = []
            for page in (describe("/static/css/app.css"), describe("/assemblies.csv", cookie=other)):
                asked_beside = ApplicationCommunicator(site, page)
                await send(asked_beside, b"")
                answers.append(await read(asked_beside))
            is_read.set()
        return answers

    for status, parts in in_own_loop(story()):
        assert status == 200
        assert b"".join(parts)


def test_a_short_page_is_whole(transactional_db: None) -> None:
    status, parts = ask("/healthz")
    assert (status, b"".join(parts)) == (200, b"ok\n")


def bearer(team: Team) -> dict[str, str]:
    return {"authorization": f"Bearer {factories.make_key(team, Scope.ADMIN)[1]}"}


async def hold_space(space: Space, until: asyncio.Event) -> asyncio.Task[None]:
    """Keep all writers of the space waiting, as a long import does."""
    is_held = asyncio.Event()
    loop = asyncio.get_running_loop()
    released = threading.Event()

    def hold() -> None:
        with transaction.atomic():
            lock_space(space)
            loop.call_soon_threadsafe(is_held.set)
            released.wait(60)
        connection.close()

    async def release() -> None:
        await until.wait()
        released.set()
        await holding

    holding = asyncio.ensure_future(asyncio.to_thread(hold))
    await is_held.wait()
    return asyncio.create_task(release())


def write(space: Space, key: dict[str, str]) -> ApplicationCommunicator:
    return call(f"/api/v1/spaces/{space.slug}/records", "POST", **key)


def test_writers_that_wait_for_a_team_keep_no_other_team_waiting(space: Space, team: Team) -> None:
    writing, reading = bearer(team), bearer(factories.make_team("rival"))

    async def story() -> list[int]:
        is_over = asyncio.Event()
        # The process knows the team of a key from its first request on.
        for key in (writing, reading):
            known = call("/api/v1/me", **key)
            await send(known, b"")
            await read(known)
        held = await hold_space(space, is_over)
        writers = [write(space, writing) for _ in range(2 * REQUESTS_AT_ONCE)]
        for writer in writers:
            await send(writer, b'{"title": "A note"}')
        statuses = []
        for path, key in (("/api/v1/me", reading), ("/accounts/login/", {}), ("/healthz", {})):
            other = call(path, **key)
            await send(other, b"")
            statuses.append((await read(other))[0])
        is_over.set()
        await held
        return statuses + [(await read(writer))[0] for writer in writers]

    assert in_own_loop(story()) == [200] * 3 + [201] * 2 * REQUESTS_AT_ONCE
    assert Record.objects.count() == 2 * REQUESTS_AT_ONCE


def test_a_client_that_leaves_its_line_has_nothing_done(space: Space, team: Team) -> None:
    key = bearer(team)

    async def story() -> None:
        is_over = asyncio.Event()
        held = await hold_space(space, is_over)
        inside = [write(space, key) for _ in range(REQUESTS_AT_ONCE // 2)]
        waiting = write(space, key)
        for writer in (*inside, waiting):
            await send(writer, b'{"title": "A note"}')
        assert await waiting.receive_nothing()
        await waiting.send_input({"type": "http.disconnect"})
        await waiting.wait(10)
        is_over.set()
        await held
        for writer in inside:
            assert (await read(writer))[0] == 201

    in_own_loop(story())
    assert Record.objects.count() == REQUESTS_AT_ONCE // 2


def wait_for_a_lock() -> None:
    wait_until(somebody_waits)
    connection.close()


def test_a_read_ends_when_its_client_leaves(space: Space, team: Team) -> None:
    key = bearer(team)

    async def story() -> None:
        with psycopg.connect(own_conninfo()) as other:
            other.execute("LOCK TABLE contextopt_space IN ACCESS EXCLUSIVE MODE")
            page = call("/api/v1/spaces", **key)
            await send(page, b"")
            await asyncio.to_thread(wait_for_a_lock)
            await page.send_input({"type": "http.disconnect"})
            # The lock is still held.
            await page.wait(20)

    in_own_loop(story())


def test_a_full_line_is_refused_for_a_while(space: Space, team: Team) -> None:
    key, cookie = bearer(team), {"cookie": log_in("olga", team)}

    async def story() -> list[tuple[int, bytes]]:
        is_over = asyncio.Event()
        for known in (key, cookie):
            page = call("/api/v1/me" if known is key else "/", **known)
            await send(page, b"")
            await read(page)
        held = await hold_space(space, is_over)
        writers = [write(space, key) for _ in range(REQUESTS_AT_ONCE // 2 + WAITING_MAX)]
        for writer in writers:
            await send(writer, b'{"title": "A note"}')
        answers = []
        for page in (call("/api/v1/me", **key), call("/", **cookie)):
            await send(page, b"")
            start = await page.receive_output(10)
            answers.append((start["status"], dict(start["headers"])[b"Retry-After"]))
        is_over.set()
        await held
        for writer in writers:
            assert (await read(writer))[0] == 201
        return answers

    assert in_own_loop(story()) == [(503, b"2")] * 2


def test_who_guesses_keys_waits_for_each_refusal(transactional_db: None) -> None:
    async def story() -> None:
        for _ in range(WRONG_KEYS.burst):
            page = call("/api/v1/me", authorization="Bearer ctx_no")
            await send(page, b"")
            assert (await read(page))[0] == 401
        page = call("/api/v1/me", authorization="Bearer ctx_no")
        await send(page, b"")
        assert await page.receive_nothing(0.5)
        assert (await read(page))[0] == 429

    in_own_loop(story())
