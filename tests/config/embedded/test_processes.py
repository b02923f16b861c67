"""The children of `up`: how they are watched and stopped, and where they may listen."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from config.embedded import processes
from config.embedded.place import BASE_DIR, PortInUseError
from config.embedded.processes import LogFile, check_port, restart_delay_seconds
from tests.concurrency import wait_until

# One child ends on SIGTERM, the other ignores it.
SUPERVISED = """
import sys
from pathlib import Path
from config.embedded import processes
from config.embedded.processes import Program, Supervisor

# The program of the test never replaces its worker, so waiting for that shows nothing more.
processes.REPLACED_SECONDS = 1.0

CHILD = "import signal, time; {} print('ready', flush=True); time.sleep(60)"
DEAF = CHILD.format("signal.signal(signal.SIGTERM, signal.SIG_IGN);")
# Its worker shows signs of life, and is never replaced.
LED = '''
import os, time
from config.embedded.pulses import start_pulse
if os.fork():
    time.sleep(60)
start_pulse()
print("ready", os.getppid(), os.getpid(), flush=True)
time.sleep(60)
'''
programs = [Program("mild", (sys.executable, "-c", CHILD.format("")))]
if "deaf" in sys.argv:
    programs.append(Program("deaf", (sys.executable, "-c", DEAF)))
if "led" in sys.argv:
    programs.append(Program("led", (sys.executable, "-c", LED)))
# Its worker begins to serve when the test lets it, and serves until it is told to stop.
FREE = '''
import os, sys, time
from pathlib import Path
from config.embedded.pulses import start_pulse
if os.fork():
    time.sleep(60)
print("ready", os.getppid(), os.getpid(), flush=True)
while Path("held").exists():
    time.sleep(0.05)
start_pulse()
time.sleep(60)
'''
if "free" in sys.argv:
    programs.append(Program("free", (sys.executable, "-c", FREE), has_free_workers=True))
ready = [Path("var/log", f"{each.name}.log") for each in programs]

def tell():
    if all("ready" in log.read_text() for log in ready):
        print("serving", flush=True)

def report(text):
    print(text, flush=True)

Supervisor(programs, Path.cwd(), report, [tell]).run()
"""


def test_port_of_another_program() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortInUseError, match=rf"127.0.0.1:{port} cannot be used.*make run PORT=\d+"):
            check_port("127.0.0.1", port)
    check_port("127.0.0.1", port)


@pytest.mark.parametrize("host", ["no such host", "203.0.113.7"])
def test_address_of_another_machine(host: str) -> None:
    with pytest.raises(PortInUseError, match=re.escape(f"{host} is not an address")):
        check_port(host, 8000)


def test_delays_grow_to_half_a_minute() -> None:
    delays = [restart_delay_seconds(failures, has_served=False) for failures in (0, 1, 2, 3, 5, 6, 50)]
    assert delays == [0.5, 1, 2, 4, 16, 30, 30]


def test_a_program_that_served_before_waits_for_two_seconds_at_most() -> None:
    delays = [restart_delay_seconds(failures, has_served=True) for failures in (0, 1, 2, 3, 50)]
    assert delays == [0.5, 1, 2, 2, 2]


@pytest.fixture
def supervise(tmp_path: Path):
    """Run a supervisor until its children are up: `supervise("deaf")`."""
    started: list[subprocess.Popen[str]] = []

    def run(*names: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", SUPERVISED, *names], cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(BASE_DIR)}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        _read_to(process, "serving")
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def _read_to(process: subprocess.Popen[str], start: str) -> None:
    assert process.stdout is not None
    assert any(line.startswith(start) for line in process.stdout)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_children(signum: signal.Signals, supervise) -> None:
    process = supervise()
    process.send_signal(signum)
    assert process.wait(timeout=3) == 0


def test_a_second_signal_does_not_wait_for_the_children(supervise) -> None:
    process = supervise("deaf")
    process.send_signal(signal.SIGINT)
    _read_to(process, "Stopping")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=3) == 0


@pytest.mark.parametrize("stopped", [slice(0, 2), slice(1, 2)])
def test_a_program_that_cannot_replace_its_worker_is_restarted(
    supervise, tmp_path: Path, stopped: slice
) -> None:
    supervise("led")
    log = tmp_path / "var" / "log" / "led.log"
    [begun] = log.read_text().splitlines()
    leader, worker = map(int, begun.split()[1:])
    wait_until(lambda: _has_beaten(tmp_path, worker))
    for pid in (leader, worker)[stopped]:
        os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: len(log.read_text().splitlines()) == 2)
    assert not psutil.pid_exists(worker) or psutil.Process(worker).status() == psutil.STATUS_ZOMBIE


def test_workers_serve_until_their_successors_do(supervise, tmp_path: Path) -> None:
    supervise("free")
    log = tmp_path / "var" / "log" / "free.log"
    [(leader, worker)] = _pairs(log)
    wait_until(lambda: _has_beaten(tmp_path, worker))
    held = tmp_path / "held"
    held.touch()
    os.kill(leader, signal.SIGKILL)
    wait_until(lambda: len(_pairs(log)) == 2)
    _, (_, successor) = _pairs(log)
    assert _is_alive(worker)
    held.unlink()
    wait_until(lambda: not _is_alive(worker))
    assert _has_beaten(tmp_path, successor)


def _pairs(log: Path) -> list[tuple[int, int]]:
    """Return the ids of each start's first process and its worker."""
    return [(int(line.split()[1]), int(line.split()[2])) for line in log.read_text().splitlines()]


def _has_beaten(top: Path, pid: int) -> bool:
    return any(top.glob(f"var/pulses/*/{pid}"))


def _is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_log_shows_errors_once_and_whole(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log" / "web.log")
    log.start()
    log.path.write_text('{"level": "info"}\n{"level": "error", "event": "a"}\nTraceback (most')
    assert log.new_errors() == ['{"level": "error", "event": "a"}']
    with log.path.open("a") as file:
        file.write(" recent call last):\nValueError: b\n")
    assert log.new_errors() == ["Traceback (most recent call last):", "ValueError: b"]
    assert log.new_errors() == []
    assert log.tail(1) == ["ValueError: b"]


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_logs_are_for_their_owner_alone(tmp_path: Path, umask: int) -> None:
    """Old logs too, and those that a child is given after its log was deleted."""
    folder = tmp_path / "log"
    folder.mkdir(mode=0o755)
    old = [folder / name for name in ("web.log", "chat.log", "web.log.1")]
    for path in old:
        path.write_text("before\n")
        path.chmod(0o644)
    link = folder / "link"
    link.symlink_to(tmp_path)
    tmp_path.chmod(0o755)
    log, new = LogFile(folder / "web.log"), LogFile(tmp_path / "new" / "web.log")
    before = os.umask(umask)
    try:
        log.start()
        new.start()
        new.path.unlink()
        new.open().close()
    finally:
        os.umask(before)
    assert [mode(path) for path in (folder, *old)] == [0o700, 0o600, 0o600, 0o600]
    assert [mode(path) for path in (new.path.parent, new.path)] == [0o700, 0o600]
    assert mode(tmp_path) == 0o755
    assert old[0].read_text() == "before\n"


def test_a_rotated_log_is_private_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MAX_LOG_BYTES", 10)
    log = LogFile(tmp_path / "web.log")
    log.start()
    log.path.write_text("ValueError: a\n")
    log.new_errors()
    assert mode(tmp_path / "web.log.1") == 0o600


def test_a_log_may_be_emptied_or_deleted(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "web.log")
    log.start()
    log.path.write_text("ValueError: a\n")
    assert log.new_errors() == ["ValueError: a"]
    log.path.write_text("")
    assert log.new_errors() == []
    log.path.write_text("KeyError: b\n")
    assert log.new_errors() == ["KeyError: b"]
    log.path.unlink()
    assert (log.new_errors(), log.tail()) == ([], [])
    log.path.write_text("OSError: c\n")
    assert log.new_errors() == ["OSError: c"]


def test_a_log_without_room_for_its_copy_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MAX_LOG_BYTES", 1_000)
    log, older = LogFile(tmp_path / "web.log"), tmp_path / "web.log.1"
    log.start()
    older.symlink_to("/dev/full")
    log.path.write_bytes(b"x" * 1_000 + b"\nValueError: a\n")
    assert log.new_errors() == ["ValueError: a"]
    assert (log.path.read_bytes(), older.is_symlink()) == (b"", False)
    log.path.write_bytes(b"x" * 1_000 + b"\nKeyError: b\n")
    assert log.new_errors() == ["KeyError: b"]
    assert older.stat().st_size > 1_000
