"""Finds the processes of an embedded server and clears up after a crash."""

import contextlib
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from config.embedded.place import SOCKET_NAME, Location, PostgresError

REMAINS_SECONDS = 15.0
# In postmaster.pid, the eighth line is the server's state, padded with blanks.
STATUS_LINE = 7
STOPPING = "stopping"


def postmaster(place: Location) -> psutil.Process | None:
    try:
        pid = int((place.data_dir / "postmaster.pid").read_text().split("\n", 1)[0])
        process = psutil.Process(pid)
    except (OSError, ValueError, psutil.NoSuchProcess):
        return None
    return process if _serves(process, place) else None


def is_stopping(place: Location) -> bool:
    """Tell whether the server was told to stop, and refuses new clients while it waits for the others."""
    try:
        lines = (place.data_dir / "postmaster.pid").read_text().splitlines()
    except OSError:
        return False
    return len(lines) > STATUS_LINE and lines[STATUS_LINE].strip() == STOPPING


def server_processes(place: Location) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _serves(process, place)]


def kill_server(place: Location) -> None:
    """Kill all processes of a server, the main one first, as it would replace the others."""
    main = postmaster(place)
    _signal_all([*([main] if main else []), *server_processes(place)], signal.SIGKILL)


def clear_remains(place: Location) -> None:
    """Wait until no process of an earlier server is left, then delete its pid files.

    Sends SIGINT after 3 s and SIGQUIT after 8 s. After a SIGKILL of the main process its backends may still
    write for a moment. The pid files alone prove little: their number may belong to another process after a
    reboot, or to a zombie in a container.
    """
    started = time.monotonic()
    pleas = [(3.0, signal.SIGINT), (8.0, signal.SIGQUIT)]
    while remains := server_processes(place):
        elapsed = time.monotonic() - started
        if elapsed > REMAINS_SECONDS:
            pids = ", ".join(str(process.pid) for process in remains)
            raise PostgresError(
                f"An earlier database server does not end: processes {pids} use {place.data_dir}."
            )
        if pleas and elapsed > pleas[0][0]:
            _signal_all(remains, pleas.pop(0)[1])
        time.sleep(0.1)
    for stale in (place.data_dir / "postmaster.pid", *place.socket_dir.glob(f"{SOCKET_NAME}*")):
        stale.unlink(missing_ok=True)


def _signal_all(processes: Sequence[psutil.Process], signum: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signum)


def _serves(process: psutil.Process, place: Location) -> bool:
    """Tell whether a live process belongs to this server: all of them work in the data directory."""
    try:
        return (
            process.name().startswith("postgres")
            and process.status() != psutil.STATUS_ZOMBIE
            and Path(process.cwd()) == place.data_dir.resolve()
        )
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
