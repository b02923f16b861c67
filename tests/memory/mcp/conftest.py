"""A separate server process, and the SDK's client for every way to reach the tools."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from django.conf import settings
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from contextopt.people.models import Scope, Team
from contextopt.spaces.models import Space
from dashboard.management.commands.up import web_command
from tests import factories
from tests.concurrency import in_own_loop, wait_until
from tests.processes import database, free_port, wait_for_sessions_to_end

MODES = ("2026-07-28", "legacy")
TRANSPORTS = ("http", "stdio")
PROCESSES = "tests of tools for models"
MANAGE = [sys.executable, str(settings.BASE_DIR / "manage.py")]


def environment() -> dict[str, str]:
    """Return the environment of a process that works on the tests' database."""
    return {**os.environ, "DATABASE_URL": database(PROCESSES)}


@pytest.fixture(scope="session")
def address(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a web server as `up` starts it."""
    port = free_port()
    log = tmp_path_factory.mktemp("server") / "log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            web_command("127.0.0.1", port, web_workers=1),
            cwd=settings.BASE_DIR, env=environment(), stdout=output, stderr=output,
        ) as server,
    ):  # fmt: skip
        wait_until(lambda: _answers(port))
        yield f"http://127.0.0.1:{port}"
        server.terminate()
    wait_for_sessions_to_end(PROCESSES)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Door:
    """A way in: a transport, a revision of the protocol and a key."""

    transport: str
    mode: str
    secret: str
    address: str
    # The results of answers over HTTP, as they came.
    raw: list[Any] = field(default_factory=list)

    def visit[T](self, story: Callable[[Client], Awaitable[T]]) -> T:
        async def visited() -> T:
            async with AsyncExitStack() as stack:
                target = await self._target(stack)
                client = await stack.enter_async_context(Client(target, mode=self.mode))
                return await story(client)

        return in_own_loop(visited())

    def call(self, name: str, **arguments: Any) -> CallToolResult:
        return self.visit(lambda client: client.call_tool(name, arguments))

    async def _target(self, stack: AsyncExitStack) -> Any:
        if self.transport == "stdio":
            variables = {**environment(), "CONTEXTOPT_KEY": self.secret}
            return StdioServerParameters(command=MANAGE[0], args=[*MANAGE[1:], "mcp"], env=variables)
        headers = {"Authorization": f"Bearer {self.secret}"}
        http = await stack.enter_async_context(
            httpx2.AsyncClient(
                headers=headers, timeout=30, verify=False, event_hooks={"response": [self._keep]}
            )
        )
        return streamable_http_client(f"{self.address}/mcp", http_client=http)

    async def _keep(self, response: httpx2.Response) -> None:
        content = await response.aread()
        if content:
            self.raw.append(json.loads(content).get("result"))


@pytest.fixture
def team(transactional_db: None) -> Team:
    return factories.make_team()


@pytest.fixture
def space(team: Team) -> Space:
    space = factories.make_space(team)
    factories.make_record(space, title="Queue stuck", notes="Workers of the old release kept their lock.")
    return space


@pytest.fixture
def secret(team: Team) -> str:
    return factories.make_key(team, Scope.WRITE, name="agent")[1]


@pytest.fixture
def door(address: str, secret: str) -> Door:
    return Door("http", MODES[0], secret, address)


@pytest.fixture
def own_door(address: str) -> Callable[[str], Door]:
    """A door with a key of one's own."""
    return lambda secret: Door("http", MODES[0], secret, address)


@pytest.fixture(params=[(transport, mode) for transport in TRANSPORTS for mode in MODES], ids="-".join)
def each_door(request: pytest.FixtureRequest, address: str, secret: str) -> Door:
    transport, mode = request.param
    return Door(transport, mode, secret, address)


def text_of(result: CallToolResult) -> str:
    [part] = result.content
    assert part.type == "text"
    return part.text
