"""Starts, watches, restarts and stops the programs that serve the product, as children of `manage.py up`.

Each child leads its own process group, so that Ctrl-C reaches only this process, which stops them in order.
All children carry the environment variable CONTEXTOPT_UP with the checkout's path. They survive a SIGKILL of
this process; the next start finds them by that variable and ends them. A process that gives no sign of life
(pulses.py) is ended here, and an ended program is started again.
"""

import contextlib
import errno
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO

import psutil

from config.embedded.filelocks import restrict
from config.embedded.place import PortInUseError
from config.embedded.pulses import FOLDER, Pulses

MARK = "CONTEXTOPT_UP"
TICK_SECONDS = 0.25
STOP_SECONDS = 6.0
# The next start waits for processes left by the last one. A job that takes longer runs again later.
LEFTOVER_SECONDS = 1.0
KILLED_SECONDS = 5.0
# A program replaces a worker that was killed in about half the time.
REPLACED_SECONDS = 10.0
SERVED_DELAY_SECONDS = 0.5
FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 30.0
# For a program that has served before. Its start does not fail for good.
LONGEST_SERVED_DELAY_SECONDS = 2.0
# A busy machine takes half a minute to start a program.
ORPHAN_SECONDS = 120.0
MAX_LOG_BYTES = 20_000_000
MAX_LINES_PER_TICK = 20
ERROR_LINE = re.compile(
    rb'"level": "(?:error|critical)"|\b(?:ERROR|CRITICAL|FATAL)\b|^Traceback|^[\w.]+(?:Error|Exception)\b'
)


@dataclass(frozen=True)
class Program:
    """A command. If its workers share nothing, they go on serving after its first process was killed."""

    name: str
    command: tuple[str, ...]
    has_free_workers: bool = False


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@dataclass
class LogFile:
    """A child's log under var/log. Errors are read back from it, and it is rotated."""

    path: Path
    position: int = 0

    def start(self) -> None:
        """Make the file, and close it and all other logs to everybody but their owner."""
        self.open().close()
        for path in (self.path.parent, *self.path.parent.iterdir()):
            restrict(path, group=0)
        self.position = self.path.stat().st_size

    def open(self) -> IO[bytes]:
        """Open the file for appending. Only its owner may read it, whatever the umask."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return open(self.path, "ab", opener=_private)

    def new_errors(self) -> list[str]:
        """Return the lines written since the last call that report an error.

        The file may have been emptied or deleted. A deleted one is made again with the child.
        """
        try:
            with self.path.open("rb") as file:
                self.position = min(self.position, os.fstat(file.fileno()).st_size)
                file.seek(self.position)
                text = file.read()
        except FileNotFoundError:
            self.position = 0
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self.position += len(whole)
        self._rotate()
        return [line.decode(errors="replace") for line in whole.splitlines() if ERROR_LINE.search(line)]

    def tail(self, lines: int = 12) -> list[str]:
        try:
            return self.path.read_text(errors="replace").splitlines()[-lines:]
        except FileNotFoundError:
            return []

    def _rotate(self) -> None:
        """Copy and truncate: the child keeps its descriptor, which was opened for appending.

        If there is no room for the copy, drop the lines: the log must not fill the disk any further.
        """
        if self.position > MAX_LOG_BYTES:
            older = self.path.with_suffix(".log.1")
            try:
                with open(older, "wb", opener=_private) as copy:
                    copy.write(self.path.read_bytes())
            except OSError:
                older.unlink(missing_ok=True)
            os.truncate(self.path, 0)
            self.position = 0


@dataclass
class Orphans:
    """Workers whose first process was killed. They serve until their successors do."""

    group: int
    kill_at: float
    are_asked: bool = False

    def tend(self, now: float, *, are_replaced: bool) -> bool:
        """Ask them to finish once they are replaced, and kill them later. Return whether any are left."""
        signum = 0
        if now > self.kill_at:
            signum = signal.SIGKILL
        elif are_replaced and not self.are_asked:
            signum = signal.SIGTERM
            self.are_asked, self.kill_at = True, now + STOP_SECONDS
        return _signal_group(self.group, signum) and signum != signal.SIGKILL


def _signal_group(group: int, signum: int) -> bool:
    """Return whether the group has a process. Signal 0 only asks that."""
    try:
        os.killpg(group, signum)
    except (ProcessLookupError, PermissionError):
        return False
    return True


@dataclass
class Child:
    """A program and the state of its process."""

    program: Program
    log: LogFile
    pulses: Pulses
    process: subprocess.Popen[bytes] | None = None
    failures: int = 0
    restart_at: float = 0.0
    has_served: bool = False
    orphans: Orphans | None = None
    # When a process was killed for its silence, until another one beats.
    silenced_at: float | None = None

    def start(self, base_dir: Path) -> None:
        # Orphans still touch the files of the start before.
        folder = self.pulses.folder
        self.pulses = Pulses(folder.with_suffix("" if folder.suffix else ".1"))
        self.pulses.reset()
        self.silenced_at = None
        marks = {MARK: str(base_dir), FOLDER: str(self.pulses.folder), "PYTHONUNBUFFERED": "1"}
        with self.log.open() as log:
            self.process = subprocess.Popen(  # noqa: S603
                self.program.command,
                cwd=base_dir,
                env=os.environ | marks,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def fail(self, now: float, code: int) -> float:
        """Record that the process has ended. Return the seconds to wait.

        Kill the rest of its group, unless it was killed and its workers can serve without it for a while.
        """
        is_serving = self.pulses.were_seen
        if self.process is not None and code < 0 and is_serving and self.program.has_free_workers:
            self.end_orphans()
            self.orphans = Orphans(self.process.pid, now + ORPHAN_SECONDS)
        else:
            self.kill_group()
        self.process = None
        self.has_served |= is_serving
        self.failures = 0 if is_serving else self.failures + 1
        delay = restart_delay_seconds(self.failures, has_served=self.has_served)
        self.restart_at = now + delay
        return delay

    def tend_orphans(self, now: float) -> None:
        if self.orphans is None:
            return
        are_replaced = self.process is not None and self.pulses.were_seen
        if not self.orphans.tend(now, are_replaced=are_replaced):
            self.orphans = None

    def end_orphans(self) -> None:
        if self.orphans is not None:
            _signal_group(self.orphans.group, signal.SIGKILL)
            self.orphans = None

    def end_silent(self) -> list[int]:
        """Kill live processes of the group that give no sign of life; return their ids.

        Kill the whole group if its first process, which should replace them, hangs too.
        """
        silent = [pid for pid in self.pulses.find_silent() if self._kill(pid)]
        now = time.monotonic()
        if silent:
            self.silenced_at = now
        if self.silenced_at is None:
            return silent
        if self._is_stopped() or now - self.silenced_at > REPLACED_SECONDS:
            self.kill_group()
            self.silenced_at = None
        elif self.pulses.have_beaten_since(self.silenced_at):
            self.silenced_at = None
        return silent

    def _is_stopped(self) -> bool:
        """Tell whether the first process of the group is stopped by a signal."""
        with contextlib.suppress(psutil.NoSuchProcess):
            if self.process is not None:
                return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED
        return False

    def _kill(self, pid: int) -> bool:
        """Kill a process of the group, unless it has ended and its id now belongs to another process."""
        with contextlib.suppress(ProcessLookupError):
            if self.process is not None and os.getpgid(pid) == self.process.pid:
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    def kill_group(self) -> None:
        if self.process is not None:
            _signal_group(self.process.pid, signal.SIGKILL)


def restart_delay_seconds(failures: int, *, has_served: bool) -> float:
    """Return the seconds to wait before a restart.

    0.5 s after the program had been serving; else 1 s after the first failure in a row, doubled with each
    further one up to 30 s, or to 2 s if it has served before.
    """
    if not failures:
        return SERVED_DELAY_SECONDS
    longest = LONGEST_SERVED_DELAY_SECONDS if has_served else LONGEST_DELAY_SECONDS
    return min(FIRST_DELAY_SECONDS * 2.0 ** (failures - 1), longest)


@dataclass
class Supervisor:
    """Keeps the programs running until SIGINT, SIGTERM or SIGHUP. Calls the watchers four times a second."""

    programs: Sequence[Program]
    base_dir: Path
    report: Callable[[str], None]
    watchers: Sequence[Callable[[], None]]
    children: list[Child] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _hurried: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        var = self.base_dir / "var"
        self.children = [
            Child(each, LogFile(var / "log" / f"{each.name}.log"), Pulses(var / "pulses" / each.name))
            for each in self.programs
        ]
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, self._on_signal)
        try:
            for child in self.children:
                child.log.start()
                child.start(self.base_dir)
            while not self._stopping.wait(TICK_SECONDS):
                self._tend()
                for watch in self.watchers:
                    watch()
        finally:
            self._stop_all()

    def _on_signal(self, _signum: int, _frame: FrameType | None) -> None:
        if self._stopping.is_set():
            self._hurried.set()
        self._stopping.set()

    def _tend(self) -> None:
        for child in self.children:
            for line in child.log.new_errors()[:MAX_LINES_PER_TICK]:
                self.report(f"{child.program.name}: {line[:500]}")
            now = time.monotonic()
            if child.process is None:
                if now >= child.restart_at:
                    child.start(self.base_dir)
            elif (code := child.process.poll()) is not None:
                self._report_end(child, code, child.fail(now, code))
            child.tend_orphans(now)
            for pid in child.end_silent():
                self.report(f"{child.program.name}: process {pid} stopped responding and was terminated.")

    def _report_end(self, child: Child, code: int, delay: float) -> None:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        name = child.program.name
        self.report(f"{name} {how}. Restarting it in {delay:g} s. Last lines of {child.log.path}:")
        for line in child.log.tail():
            self.report(f"{name}: {line[:500]}")

    def _stop_all(self) -> None:
        """Ask all children to finish. Kill them after a few seconds, or at once on a second Ctrl-C."""
        running = [child for child in self.children if child.process is not None]
        for child in self.children:
            child.end_orphans()
        self.report("Stopping. Press Ctrl-C again to stop immediately, even in the middle of a job.")
        for child in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.process.pid, signal.SIGTERM)  # type: ignore[union-attr]
        deadline = time.monotonic() + STOP_SECONDS
        while any(child.process.poll() is None for child in running):  # type: ignore[union-attr]
            if time.monotonic() > deadline or self._hurried.is_set():
                break
            time.sleep(0.05)
        for child in running:
            child.kill_group()
            child.process.wait()  # type: ignore[union-attr]


def end_leftovers(base_dir: Path) -> int:
    """End the processes that a killed `up` of this checkout left behind; return how many there were."""
    leftovers = list(_leftovers(base_dir))
    for signum, seconds in ((signal.SIGTERM, LEFTOVER_SECONDS), (signal.SIGKILL, KILLED_SECONDS)):
        for process in leftovers:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signum)
        deadline = time.monotonic() + seconds
        while any(map(_is_alive, leftovers)) and time.monotonic() < deadline:
            time.sleep(0.05)
    return len(leftovers)


def _is_alive(process: psutil.Process) -> bool:
    """Tell whether the process lives. A zombie doesn't: a container without init may never collect it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _leftovers(base_dir: Path) -> Iterable[psutil.Process]:
    """Yield this user's processes with this checkout's mark, except this process and its parents."""
    own = psutil.Process()
    spared = {own.pid, *(parent.pid for parent in own.parents())}
    for process in psutil.process_iter():
        try:
            is_candidate = process.pid not in spared and process.uids().real == os.getuid()
            if is_candidate and process.environ().get(MARK) == str(base_dir):
                yield process
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue


def _web_port_remedy(free: int) -> str:
    return f"Choose another port: `make run PORT={free}` or `manage.py up --port {free}`."


def check_port(host: str, port: int, remedy: Callable[[int], str] = _web_port_remedy) -> None:
    """Check that a server can listen there. `remedy` names a free port. Raises: PortInUseError."""
    try:
        _listen_once(host, port)
    except socket.gaierror as error:
        raise PortInUseError(f"{host} is not an address of this machine: {error.strerror}.") from error
    except PermissionError as error:
        raise PortInUseError(f"Port {port} needs privileges; choose one from 1024 up.") from error
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise PortInUseError(f"{host} is not an address of this machine.") from error
        free = find_free_port(host, port + 1) or (8000 if port != 8000 else 9000)
        raise PortInUseError(
            f"{host}:{port} cannot be used ({error.strerror}): another program is using it. {remedy(free)}"
        ) from error


def _listen_once(host: str, port: int) -> None:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        # A server may use a port whose last connections are still closing.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        probe.listen()


def find_free_port(host: str, first: int) -> int | None:
    """Return the first port of fifty where a server can listen."""
    for port in range(first, min(first + 50, 65_536)):
        with contextlib.suppress(OSError):
            _listen_once(host, port)
            return port
    return None
