"""Runs the embedded PostgreSQL: a command that needs it starts it, all share it, and it stops when unused.

Every process that uses the server holds a shared lock on `var/locks/postgres-users.lock` for as long as it
lives; the kernel frees it even after a SIGKILL. A small detached process (lingering.py) stops the server when
nobody has held the lock for a minute. A process that starts, repairs or stops the server holds
`postgres.lock`, so that two simultaneous commands don't get in each other's way.
"""

import atexit
import contextlib
import fcntl
import os
import pwd
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import make_conninfo

from config.embedded.filelocks import acquire, locked, open_lock, try_lock
from config.embedded.place import (
    BASE_DIR,
    DISTRIBUTION,
    Location,
    LockError,
    PostgresError,
    installed_bin_dir,
    location,
)
from config.embedded.remains import clear_remains, is_stopping, kill_server, postmaster

DATABASE = "contextopt"
START_LOCK = "postgres"
USERS_LOCK = "postgres-users"
LINGER_LOCK = "postgres-linger"
LOCK_SECONDS = 120.0
CONNECT_SECONDS = 3
START_SECONDS = 120
LOG_LINES_SHOWN = 12
MAX_LOG_BYTES = 5_000_000
# Parallel index builds need this much dynamic shared memory. Containers often get 64 MB.
ROOMY_SHM_BYTES = 512 * 1024 * 1024
SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    # Two web processes, the gateway with its deciders and the workers may open 16 each, and tests run twice.
    "max_connections": "200",
    "effective_cache_size": "1GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "256MB",
    "random_page_cost": "1.1",
    "jit": "off",
    "synchronous_commit": "on",
    "wal_compression": "on",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "log_checkpoints": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


_held: dict[Path, IO[bytes]] = {}


def connection_params(place: Location | None = None) -> dict[str, str]:
    """Return how to reach the server by its socket. The port is explicit because $PGPORT would change it."""
    place = place or location()
    return {"host": str(place.socket_dir), "port": SETTINGS["port"], "dbname": DATABASE, "user": DATABASE}


def ensure_running(place: Location | None = None) -> None:
    """Adopt the running server or start one, and hold it for this process."""
    place = place or location()
    hold(place)
    if not _database_answers(place):
        with locked(place.var_dir, START_LOCK, LOCK_SECONDS):
            if not _database_answers(place):
                _bring_up(place)
    if not _lingerer_waits(place):
        _spawn_lingerer(place)


def hold(place: Location) -> None:
    """Count this process as a user of the server until it ends or releases it."""
    if place.base_dir in _held:
        return
    handle = open_lock(place.var_dir, USERS_LOCK)
    acquire(handle, fcntl.LOCK_SH, LOCK_SECONDS)
    os.utime(handle.fileno())  # the lingerer counts its minute from here
    _held[place.base_dir] = handle
    atexit.register(handle.close)  # the kernel would close it too, but with a ResourceWarning


def release(place: Location | None = None) -> None:
    handle = _held.pop((place or location()).base_dir, None)
    if handle is not None:
        handle.close()


def stop(place: Location | None = None) -> bool:
    """Release the server and stop it. Return False, without stopping it, when another process uses it."""
    place = place or location()
    release(place)
    with open_lock(place.var_dir, USERS_LOCK) as users:
        try:
            acquire(users, fcntl.LOCK_EX, 1.0)
        except LockError:
            return False
        shut_down(place)
    return True


def is_running(place: Location | None = None) -> bool:
    """Tell whether the server's main process lives and takes new clients. Cheap: opens no connection."""
    place = place or location()
    return postmaster(place) is not None and not is_stopping(place)


def is_silent(place: Location | None = None) -> bool:
    """Tell whether the server does not even refuse a new client, which takes some seconds to find out."""
    return _ping(place or location()) == pq.Ping.NO_RESPONSE


def kill(place: Location | None = None) -> None:
    """Kill a server that hangs. The next one recovers what was committed."""
    kill_server(place or location())


def _bring_up(place: Location) -> None:
    _make_room(place)
    _install_binaries(place)
    if not (place.data_dir / "PG_VERSION").exists():
        _initialise(place)
    _check_version(place)
    # A server that was told to stop waits for its clients, which may stay for hours.
    if is_stopping(place) or _ping(place) == pq.Ping.NO_RESPONSE:
        clear_remains(place)
        _launch(place)
    _wait_until_ready(place)
    with psycopg.connect(_conninfo(place), autocommit=True) as connection:
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if known is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def _make_room(place: Location) -> None:
    """Create the directories, owned by the server's account and closed to everybody else."""
    try:
        place.var_dir.mkdir(exist_ok=True)
        for directory in (place.home, place.socket_dir):
            _make_private(directory, place)
    except OSError as error:
        raise PostgresError(
            f"The database needs a place to write, and {error.filename} cannot be used: {error.strerror}. "
            f"Make {place.var_dir} writable for user {_user_name(os.geteuid())}, or set DATABASE_URL to a "
            f"PostgreSQL server of your own."
        ) from error


def _make_private(directory: Path, place: Location) -> None:
    owner = place.owner_uid
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
        if place.run_as is not None:
            os.chown(directory, owner, pwd.getpwnam(place.run_as).pw_gid)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != owner:
        raise PostgresError(
            f"{directory} belongs to user {_user_name(status.st_uid)}, not to {_user_name(owner)}, who "
            f"runs the database now. Use the account that created it, or delete it if you don't need it."
        )
    if status.st_mode & 0o077:
        directory.chmod(0o700)


def _install_binaries(place: Location) -> None:
    """Copy the server's binaries next to its data where its account cannot reach the installed ones."""
    if place.home not in place.bin_dir.parents or place.bin_dir.exists():
        return
    for outdated in place.home.glob(f"{DISTRIBUTION}-*"):
        shutil.rmtree(outdated)
    release = installed_bin_dir().parent
    packages = release.parents[1]
    copy = place.bin_dir.parents[2]
    partial = copy.with_name("binaries.partial")
    shutil.rmtree(partial, ignore_errors=True)
    # The wheel's repaired libraries lie beside the package and are found by relative path.
    for tree in (release, *packages.glob(f"{release.parent.name}.libs")):
        shutil.copytree(tree, partial / tree.relative_to(packages), symlinks=True)
    for path in (partial, *partial.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
    partial.rename(copy)


def _initialise(place: Location) -> None:
    """Create the cluster under a temporary name, so that an interrupted attempt is never taken for data."""
    if place.note:
        print(place.note, file=sys.stderr)
    partial = place.home / "data.partial"
    shutil.rmtree(partial, ignore_errors=True)
    _run(
        place,
        ["initdb", "-D", partial.name, "-U", DATABASE, "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"],
    )
    partial.rename(place.data_dir)


def _check_version(place: Location) -> None:
    made_by = (place.data_dir / "PG_VERSION").read_text().strip()
    installed = _run(place, ["postgres", "--version"]).split()[2].split(".")[0]
    if made_by != installed:
        raise PostgresError(
            f"The database in {place.data_dir} was created by PostgreSQL {made_by}, but {DISTRIBUTION} "
            f"has version {installed}. Dump it with the version it was made with and load it into a new one."
        )


def _launch(place: Location) -> None:
    if place.log_file.exists() and place.log_file.stat().st_size > MAX_LOG_BYTES:
        place.log_file.replace(place.log_file.with_suffix(".log.1"))
    settings = SETTINGS | {
        "unix_socket_directories": str(place.socket_dir),
        "dynamic_shared_memory_type": _shared_memory_type(),
        "shared_buffers": f"{_shared_buffers_mb()}MB",
    }
    options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
    _run(
        place,
        ["pg_ctl", "start", "-D", "data", "-l", place.log_file.name, "-t", str(START_SECONDS), "-o", options],
        explain_with_log=True,
    )


def _shared_buffers_mb() -> int:
    """Return a sixteenth of the machine's memory, 128 MB to 1 GB: a space of a million records fits."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(1_024, max(128, memory // 16 // 2**20))


def _shared_memory_type() -> str:
    try:
        room = os.statvfs("/dev/shm")  # noqa: S108
    except OSError:
        return "mmap"
    return "posix" if room.f_bavail * room.f_frsize >= ROOMY_SHM_BYTES else "mmap"


def shut_down(place: Location) -> None:
    """Stop the server even if it is in use."""
    with locked(place.var_dir, START_LOCK, LOCK_SECONDS):
        if postmaster(place) is not None:
            _run(place, ["pg_ctl", "stop", "-D", "data", "-m", "fast", "-t", "30"], explain_with_log=True)


def _database_answers(place: Location) -> bool:
    try:
        psycopg.connect(make_conninfo(**connection_params(place)), connect_timeout=CONNECT_SECONDS).close()
    except psycopg.OperationalError:
        return False
    return True


def _conninfo(place: Location) -> str:
    return make_conninfo(
        **(connection_params(place) | {"dbname": "postgres"}), connect_timeout=CONNECT_SECONDS
    )


def _ping(place: Location) -> pq.Ping:
    return pq.Ping(pq.PGconn.ping(_conninfo(place).encode()))


def _wait_until_ready(place: Location) -> None:
    deadline = time.monotonic() + START_SECONDS
    while _ping(place) != pq.Ping.OK:
        if time.monotonic() > deadline or not is_running(place):
            raise PostgresError(f"The database server does not respond.\n{_log_tail(place)}")
        time.sleep(0.05)


def _run(place: Location, command: Sequence[str], *, explain_with_log: bool = False) -> str:
    """Run one of the server's binaries as the server's account, without the caller's PG… variables."""
    account = pwd.getpwnam(place.run_as) if place.run_as is not None else None
    try:
        done = subprocess.run(  # noqa: S603
            [str(place.bin_dir / command[0]), *command[1:]],
            check=False,
            cwd=place.home,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"},
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            umask=0o077,
            start_new_session=True,  # Ctrl-C is for this process only
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise PostgresError(
            f"The database's program {error.filename} cannot be run: {error.strerror}. "
            f"Run `make setup` again."
        ) from error
    if done.returncode != 0:
        said = _log_tail(place) if explain_with_log else (done.stderr or done.stdout).strip()
        raise PostgresError(f"The database's program {command[0]} failed (exit {done.returncode}).\n{said}")
    return done.stdout


def _log_tail(place: Location) -> str:
    try:
        text = place.log_file.read_text(errors="replace")
    except OSError:
        return f"There is no log at {place.log_file}."
    return "\n".join([*text.splitlines()[-LOG_LINES_SHOWN:], f"(the end of {place.log_file})"])


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"number {uid}"


def _lingerer_waits(place: Location) -> bool:
    with open_lock(place.var_dir, LINGER_LOCK) as handle:
        return not try_lock(handle, fcntl.LOCK_EX)


def _spawn_lingerer(place: Location) -> None:
    """Start the detached process through a shell that ends at once, so that no zombie is left."""
    command = [sys.executable, "-m", "config.embedded.lingering", str(place.base_dir)]
    environment = {name: value for name, value in os.environ.items() if name != "CONTEXTOPT_UP"}
    subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", '"$@" </dev/null >/dev/null 2>&1 &', "sh", *command],
        cwd=BASE_DIR,
        env=environment,
        start_new_session=True,
        check=True,
    )
