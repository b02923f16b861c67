"""A real gateway process between a test and an upstream that answers as the test asks."""

import http.client
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.conf import settings
from django.db import connection
from django.db.models import QuerySet

from contextopt.gateway.models import GatewayPolicy, GatewayRequest
from contextopt.people.models import Scope, Team
from contextopt.spaces.models import Space
from dashboard.management.commands.up import gateway_command
from tests import factories
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.gateway_upstream import Upstream, respond_well
from tests.processes import database, free_port, wait_for_sessions_to_end

PROCESSES = "tests of the gateway"
LATE = ["timeout", "busy"]


@dataclass
class Process:
    """A gateway as `up` starts it, on the tests' database."""

    port: int
    log: Path
    environment: dict[str, str]
    running: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        command = [
            str(self.port) if part == str(settings.GATEWAY_PORT) else part for part in gateway_command()
        ]
        with self.log.open("ab") as output:
            self.running = subprocess.Popen(
                command, cwd=settings.BASE_DIR, env=self.environment, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
        wait_until(self.answers)

    def answers(self) -> bool:
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            asked.request("GET", "/healthz")
            return asked.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            asked.close()

    def stop(self) -> None:
        self.running.terminate()
        self.running.wait(20)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def gateway_process(upstream: Upstream, folder: Path, **environment: str) -> Process:
    given = {
        "DATABASE_URL": database(PROCESSES),
        "LLM_BASE_URL": f"{upstream.base_url}/v1",
        "ANTHROPIC_BASE_URL": upstream.base_url,
        "LOG_LEVEL": "WARNING",
    }
    return Process(free_port(), folder / "gateway.log", {**os.environ, **given, **environment})


@pytest.fixture(scope="session")
def _upstream() -> Iterator[Upstream]:
    with Upstream() as upstream:
        yield upstream


@pytest.fixture
def upstream(_upstream: Upstream) -> Iterator[Upstream]:
    """The upstream, which answers well unless the test changes that."""
    _upstream.got.clear()
    yield _upstream
    _upstream.respond = respond_well


@pytest.fixture(scope="session")
def process(
    django_db_setup: None, _upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Process]:
    process = gateway_process(_upstream, tmp_path_factory.mktemp("gateway"))
    process.start()
    yield process
    process.stop()
    wait_for_sessions_to_end(PROCESSES)


@dataclass
class Caller:
    """A program that sends prompts through the gateway for one space."""

    space: Space
    secret: str
    address: str
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.headers = {"X-Contextopt-Key": self.secret, "Authorization": "Bearer sk-provider"}

    def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        """Send a request. A context that took too long on a busy machine is asked for again, after a pause in
        which the late ones end.
        """
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        ends = time.monotonic() + PATIENCE_SECONDS
        while True:
            response = self.send(path, body, named)
            if response.headers.get("x-contextopt-status") not in LATE or time.monotonic() > ends:
                return response
            time.sleep(0.2)

    def send(self, path: str, body: Any, headers: dict[str, str]) -> httpx2.Response:
        content = {"content": body} if isinstance(body, bytes) else {"json": body}
        address = f"{self.address}{path}"
        # Loading the CA certificates would take longer than the request.
        return httpx2.post(address, headers={**self.headers, **headers}, timeout=20, verify=False, **content)

    def chat(self, *texts: str, **headers: str) -> httpx2.Response:
        """Send a conversation, whose texts are the user's and the model's in turn."""
        return self.post("/v1/chat/completions", {"model": "m", "messages": said(*texts)}, **headers)

    def logged(self, number: int = 1) -> list[GatewayRequest]:
        """Return the requests in the log, oldest first, as soon as there are so many."""
        rows = self._rows.exclude(reason__in=LATE)
        wait_until(lambda: rows.count() >= number)
        return list(rows)

    def in_time(self, ask: Callable[[], None], prompts: int) -> list[GatewayRequest]:
        """Return the logged prompts whose context was in time; at first all may be too late.

        `ask` sends prompts with a provider's client, which does not repeat them.
        """
        ends = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < ends:
            expected = self._rows.count() + prompts
            ask()
            wait_until(lambda expected=expected: self._rows.count() >= expected)
            if rows := list(self._rows.exclude(reason__in=LATE)):
                return rows
        raise AssertionError(f"no context was in time within {PATIENCE_SECONDS} s")

    @property
    def _rows(self) -> QuerySet[GatewayRequest]:
        return GatewayRequest.objects.filter(team=self.space.team_id).order_by("created_at", "id")


def said(*texts: str) -> list[dict[str, Any]]:
    return [
        {"role": "assistant" if number % 2 else "user", "content": text} for number, text in enumerate(texts)
    ]


@pytest.fixture
def caller(transactional_db: None, process: Process) -> Iterator[Caller]:
    """A caller with a space of its own, which has records."""
    yield make_caller(process)
    await_silence()


def await_silence() -> None:
    """Wait until the gateway writes nothing more, which would deadlock with emptying the tables."""
    asked = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = %s AND state <> 'idle'"
    )
    with connection.cursor() as cursor:
        quiet = 0
        while quiet < 3:
            cursor.execute(asked, [PROCESSES])
            quiet = 0 if cursor.fetchone()[0] else quiet + 1
            time.sleep(0.05)


def make_caller(process: Process) -> Caller:
    team = Team.objects.create(slug="platform", name="Platform")
    space = factories.make_space(team)
    factories.make_record(space, title="Queue stuck after deploy", notes="Workers hold the old lock.")
    factories.make_record(space, title="Mail late", notes="The relay in Oslo was full on Friday.")
    _, secret = factories.make_key(team, Scope.WRITE)
    return Caller(space, secret, process.address)


@pytest.fixture
def inserting(caller: Caller) -> Callable[..., Caller]:
    """Switch the caller's space to insert mode, before its first request, with patience."""

    def switch(**policy: Any) -> Caller:
        GatewayPolicy.objects.create(
            space=caller.space, **{"mode": "insert", "time_limit_ms": 1_000, **policy}
        )
        return caller

    return switch
