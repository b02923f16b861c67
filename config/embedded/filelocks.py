"""Locks between processes, as files under var/locks. The kernel frees them, even after a SIGKILL."""

import contextlib
import fcntl
import getpass
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from config.embedded.place import LockError

POLL_SECONDS = 0.05


def open_lock(var_dir: Path, name: str) -> IO[bytes]:
    """Open a lock file without taking the lock. Programs started by this process don't inherit it."""
    path = var_dir / "locks" / f"{name}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Everything that uses the folder comes here first. Others may only enter it: when root starts the
        # database, the account that runs it has its files inside.
        restrict(var_dir, others=stat.S_IXOTH)
        return path.open("ab")
    except OSError as error:
        raise LockError(
            f"{error.filename} cannot be written ({error.strerror}). Make {var_dir} writable for user "
            f"{getpass.getuser()}: Contextopt keeps its database, logs and locks there."
        ) from error


def restrict(path: Path, *, group: int | None = None, others: int = 0) -> None:
    """Leave others, and the group if given, only these rights. Links and files of someone else stay."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return
    mode = stat.S_IMODE(status.st_mode) & ~stat.S_IRWXO | others
    if group is not None:
        mode = mode & ~stat.S_IRWXG | group
    if mode != stat.S_IMODE(status.st_mode) and os.geteuid() in (0, status.st_uid):
        path.chmod(mode)


def try_lock(handle: IO[bytes], operation: int) -> bool:
    try:
        fcntl.flock(handle, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def acquire(handle: IO[bytes], operation: int, seconds: float) -> None:
    """Take the lock within `seconds`. Raises: LockError."""
    deadline = time.monotonic() + seconds
    while not try_lock(handle, operation):
        if time.monotonic() > deadline:
            raise LockError(f"Another process has kept {handle.name} for more than {seconds:.0f} seconds.")
        time.sleep(POLL_SECONDS)


@contextlib.contextmanager
def locked(var_dir: Path, name: str, seconds: float) -> Iterator[None]:
    with open_lock(var_dir, name) as handle:
        acquire(handle, fcntl.LOCK_EX, seconds)
        yield
