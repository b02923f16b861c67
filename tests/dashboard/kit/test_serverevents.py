"""Open pages that are told of changes, served by the application itself."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.db import connection, connections
from django.test import Client
from django.utils import timezone
from psycopg import sql
from psycopg.conninfo import make_conninfo

from config.asgi import application
from contextopt.people.models import Membership, Role, Team, User
from contextopt.spaces.models import Space
from contextopt.sql import own_conninfo
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.votes import give_feedback
from tests import factories
from tests.concurrency import in_own_loop

SECONDS = 20.0


@pytest.fixture
def team(transactional_db: None) -> Team:
    return factories.make_team()


@pytest.fixture
def space(team: Team) -> Space:
    space = factories.make_space(team)
    factories.make_record(space, date=timezone.now())
    return space


def scope_of(user: User | None, method: str = "GET", host: str = "localhost") -> dict[str, Any]:
    headers = [(b"host", host.encode())]
    if user:
        client = Client()
        client.force_login(user)
        headers.append((b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode()))
    return {
        "type": "http", "method": method, "path": "/events", "query_string": b"", "headers": headers,
        "scheme": "http", "server": ("localhost", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip


class OpenPage:
    """One open stream."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self._application = ApplicationCommunicator(application, scope)

    async def open(self) -> int:
        await self._application.send_input({"type": "http.request", "body": b"", "more_body": False})
        start = await self._application.receive_output(SECONDS)
        return int(start["status"])

    async def read_until(self, text: str) -> str:
        """Return what arrived, up to this text."""
        found = ""
        while text not in found:
            part = await self._application.receive_output(SECONDS)
            found += part["body"].decode()
        return found

    async def is_silent(self, seconds: float) -> bool:
        return await self._application.receive_nothing(seconds)

    async def close(self) -> None:
        await self._application.send_input({"type": "http.disconnect"})
        await self._application.wait(SECONDS)


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        try:
            await asyncio.wait_for(story(), 30)
        finally:
            # The thread of the story's own calls keeps a connection to the database.
            await sync_to_async(connections.close_all)()

    in_own_loop(bounded())


async def open_page(user: User) -> OpenPage:
    page = OpenPage(await sync_to_async(scope_of)(user))
    assert await page.open() == 200
    await page.read_until("retry: ")
    # Changes are compared with the first look.
    await asyncio.sleep(0.7)
    return page


def test_a_page_hears_of_its_teams_assemblies_votes_and_prompts(space: Space, owner: User) -> None:
    async def story() -> None:
        page = await open_page(owner)
        made = await sync_to_async(factories.make_assembly)(space)
        assert await page.read_until("\n\n") == "event: assemblies\ndata: \n\n"
        await sync_to_async(give_feedback)(
            team=space.team,
            subject=SubjectIn(assembly_id=made.id),
            opinion=OpinionIn(rating="up"),
            rater="user:olga",
        )
        assert await page.read_until("\n\n") == "event: votes\ndata: \n\n"
        await sync_to_async(factories.make_gateway_request)(space)
        assert await page.read_until("\n\n") == "event: traffic\ndata: \n\n"
        await page.close()

    run(story)


def test_a_page_hears_nothing_of_another_team(space: Space, owner: User) -> None:
    async def story() -> None:
        outsider = await sync_to_async(
            lambda: factories.make_user("eve", factories.make_team("other"), Role.ADMIN)
        )()
        theirs, ours = await open_page(outsider), await open_page(owner)
        await sync_to_async(factories.make_assembly)(space)
        await ours.read_until("event: assemblies")
        assert await theirs.is_silent(1.2)
        await theirs.close()
        await ours.close()

    run(story)


def test_the_watch_takes_all_options_of_the_database(space: Space, owner: User, settings: Any) -> None:
    settings.DATABASE_PARAMS = {**settings.DATABASE_PARAMS, "application_name": "watch"}

    def names() -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT application_name FROM pg_stat_activity WHERE datname = current_database()")
            return [name for (name,) in cursor.fetchall()]

    async def story() -> None:
        page = await open_page(owner)
        assert "watch" in await sync_to_async(names)()
        await page.close()

    run(story)


def test_strangers_get_nothing(team: Team, owner: User) -> None:
    without_team = factories.make_user("nia")

    async def status_of(scope: dict[str, Any]) -> int:
        return await OpenPage(scope).open()

    async def story() -> None:
        assert await status_of(scope_of(None)) == 401
        assert await status_of(await sync_to_async(scope_of)(without_team)) == 401
        assert await status_of(await sync_to_async(scope_of)(owner, host="evil.test")) == 401
        assert await status_of(await sync_to_async(scope_of)(owner, method="POST")) == 405

    run(story)


def test_who_leaves_the_team_hears_no_more(space: Space, owner: User, monkeypatch) -> None:
    monkeypatch.setattr("dashboard.kit.serverevents.HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr("dashboard.kit.serverevents.RECHECK_SECONDS", 0.1)

    async def story() -> None:
        page = await open_page(owner)
        await sync_to_async(Membership.objects.all().delete)()
        ended = await page._application.receive_output(SECONDS)
        while ended["body"]:
            ended = await page._application.receive_output(SECONDS)
        assert not ended.get("more_body")
        await page.close()

    run(story)


def test_a_page_outlives_an_outage_of_the_database(space: Space, owner: User, monkeypatch) -> None:
    monkeypatch.setattr("dashboard.kit.serverevents.HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr("dashboard.kit.serverevents.RECHECK_SECONDS", 0.1)
    assert connection.connection is not None
    own = connection.connection.info.backend_pid

    async def story() -> None:
        page, late = await open_page(owner), OpenPage(await sync_to_async(scope_of)(owner))
        with outage(spared=own):
            assert await late.open() == 503
            while not await page.is_silent(1.0):
                await page.read_until(":")
            # The check of the visitor waits for a connection.
            await page.read_until(":")
        await sync_to_async(connections.close_all)()
        await sync_to_async(factories.make_assembly)(space)
        assert "event: assemblies" in await page.read_until("event: assemblies")
        await page.close()

    run(story)


@contextmanager
def outage(spared: int) -> Iterator[None]:
    """Close this process's connections to the tests' database but the spared one. Nobody can open new ones.

    Servers that other tests use later keep theirs, because they would try again only after a while.
    """
    name = connection.settings_dict["NAME"]
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    end = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> %s"
        " AND application_name = current_setting('application_name')"
    )
    with psycopg.connect(make_conninfo(own_conninfo(), dbname="postgres"), autocommit=True) as beside:
        beside.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
        beside.execute(end, [name, spared])
        try:
            yield
        finally:
            beside.execute(allow.format(sql.Identifier(name), sql.SQL("true")))


def test_only_so_many_pages_are_told(space: Space, owner: User, settings) -> None:
    settings.EVENT_STREAMS = 1

    async def story() -> None:
        first = await open_page(owner)
        second = OpenPage(await sync_to_async(scope_of)(owner))
        assert await second.open() == 503
        await first.close()
        third = await open_page(owner)
        await third.close()

    run(story)
