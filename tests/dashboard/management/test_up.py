"""`manage.py up`, for real, in a copy of the checkout with its own database, port and processes."""

import contextlib
import http.client
import io
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from django.core.management import CommandError, call_command
from django.core.management.base import OutputWrapper
from pytest_django.live_server_helper import LiveServer

from config.embedded import postgres
from config.embedded.place import BASE_DIR, PortInUseError, location
from config.embedded.processes import MARK
from config.embedded.remains import postmaster
from dashboard.management.commands.up import (
    CONNECTIONS,
    GATEWAY_DISTANCE,
    HEADERS_MS,
    Announcer,
    connection_options,
    gateway_command,
    raise_file_limit,
    settle_gateway,
    web_command,
    workers,
    write_now,
)
from tests.processes import free_port

COPIED = ("clients", "config", "contextopt", "dashboard", "memory", "static", "templates", "manage.py")
START_SECONDS = 180.0
# The product under test must not see the test run's settings.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name
    not in {"DATABASE_URL", "DJANGO_SETTINGS_MODULE", "CONTEXTOPT_ADMIN_PASSWORD", "GATEWAY_PORT", MARK}
}


@pytest.fixture(scope="module")
def checkout() -> Iterator[Path]:
    top = Path(tempfile.mkdtemp(prefix="co-up-"))
    top.chmod(0o755)
    for name in COPIED:
        source = BASE_DIR / name
        if source.is_dir():
            shutil.copytree(source, top / name)
        else:
            shutil.copy(source, top / name)
    pulses = top / "config" / "embedded" / "pulses.py"
    patient = pulses.read_text()
    pulses.write_text(patient.replace("SILENT_SECONDS = 6.0", "SILENT_SECONDS = 3.0"))
    assert pulses.read_text() != patient
    yield top
    for process in marked(top):
        process.kill()
    place = location(top)
    postgres.shut_down(place)
    shutil.rmtree(place.home, ignore_errors=True)
    shutil.rmtree(top)


@pytest.fixture
def start(checkout: Path) -> Iterator[Callable[[int], "Up"]]:
    """Start `up` on a port. Processes left by a failing test are killed."""
    started: list[Up] = []

    def start_one(port: int) -> Up:
        started.append(Up(checkout, port))
        return started[-1]

    yield start_one
    for up in started:
        up.process.kill()
        up.process.wait()


def marked(checkout: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == str(checkout):
                found.append(process)
    return found


def is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def wait_for(condition: Callable[[], bool], seconds: float = 90.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def does_jobs(up: "Up") -> bool:
    """Wait for a job that the schedule sends and the worker finishes."""
    log = up.checkout / "var" / "log" / "worker.log"
    done = log.read_text().count(" succeeded in ")
    return wait_for(lambda: log.read_text().count(" succeeded in ") > done)


class Up:
    """One `manage.py up` in its own process group, with its output in a file."""

    def __init__(self, checkout: Path, port: int) -> None:
        self.checkout, self.port = checkout, port
        self.output = checkout / f"up-{time.monotonic_ns()}.txt"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, checkout / "manage.py", "up", "--port", str(port), "--web-workers", "1"],
                cwd="/",
                env=ENVIRONMENT,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def printed(self) -> str:
        return self.output.read_text()

    def await_address(self) -> None:
        address = f"http://127.0.0.1:{self.port}"
        announced = wait_for(
            lambda: address in self.printed() or self.process.poll() is not None, START_SECONDS
        )
        assert announced, self.printed()
        assert address in self.printed(), self.printed()

    def child(self, name: str) -> psutil.Process:
        """Return the main process of a program: the one that `up` itself started."""
        for each in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.ZombieProcess):
                if name in each.cmdline():
                    return each
        raise AssertionError(f"{name} does not run")

    def end(self, signum: signal.Signals) -> int:
        self.process.send_signal(signum)
        return self.process.wait(timeout=20)


def test_serves_recovers_and_stops(checkout: Path, start: Callable[[int], Up]) -> None:
    with another_gateway() as port:
        up = start(port)
        up.await_address()
    assert is_healthy(up.port)
    _check_gateway(up)
    assert len(re.findall(r"first user: admin, password \S{12,}", up.printed())) == 1
    assert {"granian", "worker", "beat"} <= {word for each in marked(checkout) for word in each.cmdline()}
    assert does_jobs(up), up.printed()

    orphans = _kill_database_and_web(up)
    stopped = {name: up.child(name) for name in ("worker", "beat")}
    for process in stopped.values():
        process.suspend()
    second = start(free_port())
    assert second.process.wait(timeout=30) == 2
    assert f"already running from this checkout (process {up.process.pid})" in second.printed()
    # Its workers served until now, when the new ones do.
    assert wait_for(lambda: not any(map(is_alive, orphans))), up.printed()
    assert wait_for(lambda: is_healthy(up.port)), up.printed()
    up.child("config.asgi:application").kill()
    for name, process in stopped.items():
        notice = f"{name}: process {process.pid} stopped responding"
        assert wait_for(lambda notice=notice: notice in up.printed()), up.printed()
        assert wait_for(lambda name=name: f"{name} was killed by signal 9" in up.printed()), up.printed()
    assert does_jobs(up), up.printed()
    assert wait_for(lambda: is_healthy(up.port)), up.printed()
    # It had been serving, so its delay did not grow.
    assert re.findall(r"^web was .* Restarting it in (\S+) s", up.printed(), re.M) == ["0.5", "0.5"]

    left_behind = {process.pid for process in marked(checkout)}
    up.process.kill()
    up.process.wait()
    third = start(up.port)
    third.await_address()
    assert "left over from an earlier run" in third.printed()
    assert "first user" not in third.printed()
    assert left_behind.isdisjoint(process.pid for process in marked(checkout))

    assert third.end(signal.SIGINT) == 0
    assert marked(checkout) == []
    assert not postgres.is_running(location(checkout))
    # The children report the database that was killed under them; `up` itself has no error.
    printed = up.printed() + third.printed()
    own = [line for line in printed.splitlines() if not re.match(r"(web|worker|chat|beat): ", line)]
    assert not any(line.startswith("Traceback") for line in own)


@contextlib.contextmanager
def another_gateway() -> Iterator[int]:
    """Yield a free port whose gateway's usual port is in use."""
    while True:
        port = free_port()
        try:
            other = socket.create_server(("127.0.0.1", port + GATEWAY_DISTANCE))
        except OSError:
            continue
        with other:
            yield port
        return


def _check_gateway(up: Up) -> None:
    """Check that the gateway avoids the port of another one, and that the start and the page name its own."""
    assert wait_for(lambda: "The gateway is " in up.printed())
    [port] = map(int, re.findall(r"The gateway is at http://127\.0\.0\.1:(\d+)", up.printed()))
    assert up.port + GATEWAY_DISTANCE < port < up.port + GATEWAY_DISTANCE + 50
    assert wait_for(lambda: answers(port)), up.printed()
    assert f"The gateway is at <code>http://127.0.0.1:{port}</code>" in read_as_admin(up, "/connect/")


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def read_as_admin(up: Up, path: str) -> str:
    """Log in with the printed password, and return a page."""
    [password] = re.findall(r"first user: admin, password (\S+)", up.printed())
    # Loading the CA certificates would take longer than the requests.
    with httpx2.Client(
        base_url=f"http://127.0.0.1:{up.port}", follow_redirects=True, timeout=30, verify=False
    ) as browser:
        form = browser.get("/accounts/login/").text
        [token] = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', form)
        fields = {"username": "admin", "password": password, "csrfmiddlewaretoken": token}
        browser.post("/accounts/login/", data=fields)
        return browser.get(path).text


def _kill_database_and_web(up: Up) -> list[psutil.Process]:
    """Return the web's workers, which its main process leaves behind."""
    database = postmaster(location(up.checkout))
    assert database is not None
    web = up.child("config.asgi:application")
    workers = web.children()
    web.kill()
    database.kill()
    assert wait_for(lambda: "web was killed by signal 9" in up.printed()), up.printed()
    assert wait_for(lambda: "server died" in up.printed()), up.printed()
    return workers


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_a_full_disk_at_the_start_is_named(settings: Any, tmp_path: Path) -> None:
    settings.VAR_DIR = tmp_path
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(CommandError, match="writing failed: File too large") as failure:
            call_command("up")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert failure.value.returncode == 2


def test_serving_goes_on_without_room_or_reader_for_its_output() -> None:
    reader, pipe = os.pipe()
    os.close(reader)
    for lost in ("/dev/full", pipe):
        with io.TextIOWrapper(io.FileIO(lost, "w"), write_through=True) as stream:
            write_now(OutputWrapper(stream), "web ended")


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("", {"worker": "contextopt,contextopt_chat"}),
        ("http://127.0.0.1:9/v1", {"worker": "contextopt", "chat": "contextopt_chat"}),
    ],
)
def test_what_waits_for_a_model_has_a_worker_of_its_own(
    endpoint: str, expected: dict[str, str], settings: Any
) -> None:
    settings.LLM_BASE_URL = endpoint
    commands = {program.name: list(program.command) for program in workers()}
    assert {name: line[line.index("--queues") + 1] for name, line in commands.items()} == expected


@pytest.fixture
def file_limit() -> Iterator[int]:
    """The limit of open files, which a test may change."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connections_of(command: tuple[str, ...]) -> int:
    return int(command[command.index("--backpressure") + 1])


def test_open_pages_leave_room_for_requests(file_limit: int, settings: Any) -> None:
    settings.EVENT_STREAMS = 2_000
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, file_limit))
    raise_file_limit()
    assert connections_of(web_command("127.0.0.1", 8000, web_workers=8)) == 2_000 + CONNECTIONS
    assert connections_of(gateway_command()) == CONNECTIONS


def test_no_server_accepts_more_than_it_may_open(file_limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, file_limit))
    assert connections_of(web_command("127.0.0.1", 8000, web_workers=8)) < 1_024
    assert connections_of(gateway_command()) < 512


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-Half"])
def test_clients_that_never_ask_are_let_go(begun: bytes, tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text("async def application(scope, receive, send): ...")
    port = free_port()
    options = ["1000" if option == str(HEADERS_MS) else option for option in connection_options(10, 1)]
    command = [sys.executable, "-m", "granian", "echo:application", "--interface", "asginl", *options]
    with subprocess.Popen([*command, "--port", str(port)], cwd=tmp_path, stderr=subprocess.DEVNULL) as server:
        try:
            assert wait_for(lambda: is_open(port))
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.sendall(begun)
                # The server closes the connection.
                assert client.recv(1_000) == b""
        finally:
            server.terminate()


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def taken_port(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A port of the gateway that another program uses."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        settings.GATEWAY_HOST, settings.GATEWAY_PORT = other.getsockname()
        monkeypatch.setenv("GATEWAY_PORT", str(settings.GATEWAY_PORT))
        yield settings.GATEWAY_PORT


def test_a_gateway_without_an_upstream_gives_way(taken_port: int, settings: Any) -> None:
    settings.LLM_BASE_URL = settings.ANTHROPIC_BASE_URL = ""
    line = settle_gateway(8_000)
    assert line.startswith(
        f"The gateway is off. It cannot use GATEWAY_HOST and GATEWAY_PORT. 127.0.0.1:{taken_port}"
    )
    assert re.search(r"set GATEWAY_PORT=\d+ and restart", line)
    assert settings.GATEWAY_PORT is None
    assert os.environ["GATEWAY_PORT"] == ""


def test_a_gateway_with_an_upstream_needs_the_port_that_was_chosen(taken_port: int, settings: Any) -> None:
    settings.LLM_BASE_URL = "http://127.0.0.1:9/v1"
    with pytest.raises(PortInUseError, match="GATEWAY_PORT="):
        settle_gateway(8_000)


@pytest.mark.parametrize("upstream", ["", "http://127.0.0.1:9/v1"])
def test_a_port_that_nobody_chose_follows_the_web_servers(
    upstream: str, taken_port: int, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.LLM_BASE_URL, settings.ANTHROPIC_BASE_URL = upstream, ""
    monkeypatch.delenv("GATEWAY_PORT")
    line = settle_gateway(taken_port - GATEWAY_DISTANCE)
    assert taken_port < settings.GATEWAY_PORT < taken_port + 50
    assert os.environ["GATEWAY_PORT"] == str(settings.GATEWAY_PORT)
    assert line.startswith(f"The gateway is at http://127.0.0.1:{settings.GATEWAY_PORT}")
    assert ("Set LLM_BASE_URL or ANTHROPIC_BASE_URL." in line) is not bool(upstream)


def test_without_a_free_port_the_gateway_says_so(
    taken_port: int, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.LLM_BASE_URL = settings.ANTHROPIC_BASE_URL = ""
    monkeypatch.delenv("GATEWAY_PORT")
    assert settle_gateway(65_535).startswith("The gateway is off. ")


def test_a_wrong_address_of_the_gateway_is_named(taken_port: int, settings: Any) -> None:
    settings.LLM_BASE_URL, settings.GATEWAY_HOST = "http://127.0.0.1:9/v1", "192.0.2.1"
    with pytest.raises(
        PortInUseError, match=r"GATEWAY_HOST .* 192\.0\.2\.1 is not an address of this machine"
    ):
        settle_gateway(8_000)


def test_an_empty_port_switches_the_gateway_off(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.GATEWAY_PORT = None
    monkeypatch.setenv("GATEWAY_PORT", "")
    assert settle_gateway(8_000) == "The gateway is off. To switch it on, set GATEWAY_PORT and restart."
    assert settings.GATEWAY_PORT is None


@pytest.mark.django_db(transaction=True)
def test_the_first_request_is_to_a_host_that_is_allowed(
    live_server: LiveServer, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.ALLOWED_HOSTS = [".ctx.test"]
    said: list[str] = []
    port = int(live_server.url.rpartition(":")[2])
    announcer = Announcer("localhost", port, "The gateway is off.", said.append)
    # The first request loads all pages, on a busy machine for longer than an attempt waits.
    assert wait_for(lambda: announcer() or bool(said))
    assert said == [
        f"Contextopt is running at http://localhost:{port} (Ctrl-C stops it)",
        "The gateway is off.",
    ]
    assert not [record for record in caplog.records if record.name == "django.security.DisallowedHost"]
