"""The product's real processes, on a separate port, with the benchmarks' database."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings
from django.db import connection

from dashboard.management.commands.up import programs

HOST = "127.0.0.1"
WEB_WORKERS = 2
START_SECONDS = 60.0
STOP_SECONDS = 10.0


class ServerError(Exception):
    """The server did not come up."""


@dataclass(frozen=True, slots=True)
class Server:
    """The running processes and their address."""

    port: int
    processes: dict[str, int]

    def cpu_seconds(self) -> dict[str, float]:
        """Return the processor time so far of each program with its children, and of the database's backends.

        The database is left out if it runs on another machine.
        """
        spent = {}
        for name, pid in self.processes.items():
            root = psutil.Process(pid)
            spent[name] = sum(map(_cpu_seconds, [root, *root.children(recursive=True)]))
        if backends := [pid for pid in _backends() if psutil.pid_exists(pid)]:
            spent["database"] = sum(_cpu_seconds(psutil.Process(pid)) for pid in backends)
        return spent


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _backends() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        return [pid for (pid,) in cursor.fetchall()]


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """Run web, worker and schedule as `manage.py up` would, and stop them afterwards."""
    port = free_port()
    running: dict[str, subprocess.Popen[bytes]] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for program in programs(HOST, port, WEB_WORKERS, jobs=True, gateway=False):
                command = _with_own_schedule(program.command, Path(folder))
                running[program.name] = start(command, Path(folder) / f"{program.name}.log")
            wait_for(port, running["web"])
            yield Server(port, {name: process.pid for name, process in running.items()})
        except ServerError as error:
            error.add_note(_errors_of(Path(folder) / "web.log"))
            raise
        finally:
            stop(list(running.values()))


def _with_own_schedule(command: tuple[str, ...], folder: Path) -> list[str]:
    """Move the schedule's state, because a running server of this checkout may use the usual file."""
    own = str(settings.VAR_DIR / "celerybeat-schedule")
    return [str(folder / "schedule") if part == own else part for part in command]


def start(
    command: list[str], log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in its own process group, with its output in a file."""
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=settings.BASE_DIR,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _errors_of(log: Path) -> str:
    """Return the end of the web server's output, without routine events."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([line[-4_000:] for line in lines if '"level": "info"' not in line][-40:])


def wait_for(port: int, web: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(port):
        if web.poll() is not None or time.monotonic() > deadline:
            raise ServerError("the web server does not answer")
        time.sleep(0.1)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def stop(running: list[subprocess.Popen[bytes]]) -> None:
    """Ask all processes to stop, then kill what is left of their process groups."""
    for process in running:
        process.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    while any(process.poll() is None for process in running) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process in running:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_plan(module: str, plan: dict[str, Any], *, timeout_seconds: float) -> dict[str, Any]:
    """Run a module's plan in another process, which ends if this one is interrupted. Return its outcome.

    Raises:
        ServerError: the process failed.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(plan, file)
        file.flush()
        done = subprocess.run(
            [sys.executable, "-m", module, file.name],
            cwd=settings.BASE_DIR,
            stdout=subprocess.PIPE,
            timeout=timeout_seconds,
        )
    if done.returncode != 0:
        raise ServerError(f"{module} failed; its error is above")
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
