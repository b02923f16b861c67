"""The embedded server, for real: every test runs its own server in its own checkout."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from config.embedded import postgres
from config.embedded.lingering import linger
from config.embedded.place import (
    BASE_DIR,
    MAX_SOCKET_BYTES,
    PACKAGE,
    SOCKET_NAME,
    Location,
    LockError,
    PostgresError,
    SetupError,
    installed_bin_dir,
    location,
)
from config.embedded.remains import is_stopping, postmaster
from dashboard.management.commands.up import DatabaseKeeper

START = """
import pathlib, sys
from config.embedded import postgres
from config.embedded.place import location
postgres.ensure_running(location(pathlib.Path(sys.argv[1])))
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone has to change the account")


@contextlib.contextmanager
def temporary_checkouts() -> Iterator[Callable[[str], Path]]:
    top = Path(tempfile.mkdtemp(prefix="co-"))
    top.chmod(0o755)
    made: list[Path] = []

    def make(name: str) -> Path:
        made.append(top / name)
        made[-1].mkdir(parents=True)
        return made[-1]

    yield make
    for checkout in made:
        place = location(checkout)
        postgres.release(place)
        with contextlib.suppress(SetupError):
            postgres.shut_down(place)
        for process in (waiting := lingerers(checkout)):
            process.kill()
        psutil.wait_procs(waiting, timeout=60)
        for directory in (place.home, place.socket_dir):
            shutil.rmtree(directory, ignore_errors=True)
    shutil.rmtree(top)


def lingerers(checkout: Path) -> list[psutil.Process]:
    """Return the processes that would stop a server below it later. One that has just begun makes files in
    `var`.
    """
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            *_, module, base_dir = ("", "", *process.cmdline())
            if module == "config.embedded.lingering" and Path(base_dir).is_relative_to(checkout):
                found.append(process)
    return found


@pytest.fixture
def new_checkout() -> Iterator[Callable[[str], Path]]:
    """Make empty checkouts that any account can enter, and remove them with their servers and data."""
    with temporary_checkouts() as make:
        yield make


@pytest.fixture(scope="module")
def stopped_server() -> Iterator[Location]:
    """A stopped server's files, made once: initialising takes longer than the tests themselves."""
    with temporary_checkouts() as make:
        place = location(make("first"))
        postgres.ensure_running(place)
        postgres.stop(place)
        yield place


@pytest.fixture
def place(new_checkout: Callable[[str], Path], stopped_server: Location) -> Location:
    """A checkout whose server has been used before and isn't running."""
    place = location(new_checkout("plain"))
    place.var_dir.mkdir()
    subprocess.run(["cp", "-a", stopped_server.home, place.home], check=True)
    return place


def query(place: Location, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(make_conninfo(**postgres.connection_params(place))) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def wait_for(condition: Callable[[], bool], seconds: float = 15.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def kill_postmaster(place: Location) -> None:
    process = postmaster(place)
    assert process is not None
    process.send_signal(signal.SIGKILL)
    assert wait_for(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)


def test_location_starts_and_writes_nothing(new_checkout: Callable[[str], Path]) -> None:
    place = location(new_checkout("empty"))
    assert postgres.connection_params(place)["host"] == str(place.socket_dir)
    assert list(place.base_dir.iterdir()) == []
    assert place.home == place.base_dir / "var" / "postgres"
    assert place.note == ""


def test_data_survive_a_kill_of_the_server(place: Location) -> None:
    postgres.ensure_running(place)
    query(place, "CREATE EXTENSION vector")
    query(place, "CREATE TABLE kept AS SELECT '[1,2,3]'::vector AS v")
    with psycopg.connect(make_conninfo(**postgres.connection_params(place))) as busy:
        kill_postmaster(place)
        assert not postgres.is_running(place)
        postgres.ensure_running(place)
        with pytest.raises(psycopg.OperationalError):
            busy.execute("SELECT 1")
    assert query(place, "SELECT v::text FROM kept") == [("[1,2,3]",)]
    assert query(place, "SHOW listen_addresses") == [("",)]


def test_pid_file_of_a_stranger_does_not_keep_the_server_down(place: Location) -> None:
    postgres.ensure_running(place)
    pid_file = place.data_dir / "postmaster.pid"
    left_behind = pid_file.read_text().split("\n")
    kill_postmaster(place)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        pid_file.write_text("\n".join([str(stranger.pid), *left_behind[1:]]))
        postgres.ensure_running(place)
        assert stranger.poll() is None
        stranger.communicate(b"\n")
    assert postgres.is_running(place)


def test_a_server_that_was_told_to_stop_does_not_wait_for_its_clients(place: Location) -> None:
    postgres.ensure_running(place)
    with psycopg.connect(make_conninfo(**postgres.connection_params(place))) as client:
        server = postmaster(place)
        assert server is not None
        server.terminate()
        while not is_stopping(place):
            time.sleep(0.01)
        assert not postgres.is_running(place)
        postgres.ensure_running(place)
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")
    with psycopg.connect(make_conninfo(**postgres.connection_params(place))) as client:
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_a_server_that_hangs_is_replaced(place: Location) -> None:
    postgres.ensure_running(place)
    query(place, "CREATE TABLE kept AS SELECT 1 AS v")
    said: list[str] = []
    keeper = DatabaseKeeper(said.append, place)
    with psycopg.connect(make_conninfo(**postgres.connection_params(place))):
        keeper()
        server = postmaster(place)
        assert server is not None
        server.suspend()
        assert wait_for(lambda: keeper() or bool(said), 60)
    assert said == ["The database server stopped responding. Restarting it."]
    assert server != postmaster(place)
    assert query(place, "SELECT v FROM kept") == [(1,)]


def test_a_server_that_refuses_clients_is_left_alone(place: Location) -> None:
    postgres.ensure_running(place)
    query(place, "ALTER DATABASE postgres ALLOW_CONNECTIONS false")
    server = postmaster(place)
    said: list[str] = []
    keeper = DatabaseKeeper(said.append, place)
    for _ in range(5):
        keeper.ask_at = 0.0
        keeper()
    assert said == []
    assert postmaster(place) == server


def test_server_whose_socket_is_gone_is_replaced(place: Location) -> None:
    postgres.ensure_running(place)
    before = postmaster(place)
    (place.socket_dir / SOCKET_NAME).unlink()
    postgres.ensure_running(place)
    after = postmaster(place)
    assert before is not None
    assert after is not None
    assert before.pid != after.pid


def test_commands_of_the_same_instant_share_one_server(new_checkout: Callable[[str], Path]) -> None:
    place = location(new_checkout("new"))
    command = [sys.executable, "-c", START, str(place.base_dir)]
    processes = [subprocess.Popen(command, cwd=BASE_DIR, stderr=subprocess.PIPE) for _ in range(3)]
    said = [process.communicate(timeout=60)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], said
    assert query(place, "SELECT count(*) FROM pg_database WHERE datname = 'contextopt'") == [(1,)]


def test_interrupted_initialisation_is_begun_again(place: Location) -> None:
    place.data_dir.rename(place.home / "data.partial")
    postgres.ensure_running(place)
    assert query(place, "SELECT 1") == [(1,)]


def test_stop_leaves_a_server_that_another_process_uses(place: Location) -> None:
    hold = START + "print('held', flush=True); input()"
    command = [sys.executable, "-c", hold, str(place.base_dir)]
    with subprocess.Popen(command, cwd=BASE_DIR, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        postgres.ensure_running(place)
        assert not postgres.stop(place)
        assert postgres.is_running(place)
        other.communicate(b"\n")
    assert postgres.stop(place)
    assert not postgres.is_running(place)


def test_server_stops_a_while_after_its_last_user(place: Location) -> None:
    postgres.ensure_running(place)
    # The lingerer started with the server would wait a minute; it ends once the server is gone.
    waiting = threading.Thread(target=_linger_alone, args=(place, 1.0))
    waiting.start()
    time.sleep(1.5)
    assert postgres.is_running(place)
    postgres.release(place)
    waiting.join(timeout=15)
    assert not waiting.is_alive()
    assert not postgres.is_running(place)


def _linger_alone(place: Location, seconds: float) -> None:
    (place.var_dir / "locks" / f"{postgres.LINGER_LOCK}.lock").unlink()
    linger(place, seconds)


def test_path_too_long_for_a_socket(new_checkout: Callable[[str], Path]) -> None:
    place = location(new_checkout("a" * 60 + "/" + "b" * 60))
    assert len(os.fsencode(place.socket_dir / SOCKET_NAME)) <= MAX_SOCKET_BYTES
    postgres.ensure_running(place)
    assert place.socket_dir.stat().st_mode & 0o777 == 0o700
    assert query(place, "SELECT 1") == [(1,)]


def test_path_with_blanks_commas_and_quotes(new_checkout: Callable[[str], Path]) -> None:
    place = location(new_checkout("it's, well, møre"))
    postgres.ensure_running(place)
    assert query(place, "SELECT 1") == [(1,)]


def test_socket_directory_of_somebody_else_is_refused(new_checkout: Callable[[str], Path]) -> None:
    place = location(new_checkout("blank s"))
    place.socket_dir.symlink_to("/tmp")
    try:
        with pytest.raises(PostgresError, match="belongs to user"):
            postgres.ensure_running(place)
    finally:
        place.socket_dir.unlink()


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o700])
def test_others_may_at_most_enter_the_folder(place: Location, mode: int) -> None:
    """The server's account needs that, when root starts the server."""
    place.var_dir.chmod(mode)
    postgres.ensure_running(place)
    assert query(place, "SELECT 1") == [(1,)]
    assert place.var_dir.stat().st_mode & 0o007 == 0o001
    assert place.home.stat().st_mode & 0o077 == 0


@as_root
def test_checkout_that_the_servers_account_cannot_enter(new_checkout: Callable[[str], Path]) -> None:
    closed = new_checkout("closed")
    closed.chmod(0o700)
    base_dir = closed / "checkout"
    base_dir.mkdir()
    place = location(base_dir)
    try:
        assert place.home.parent == Path("/var/lib")
        assert str(closed) in place.note
        assert str(place.home) in place.note
        postgres.ensure_running(place)
        assert query(place, "SELECT 1") == [(1,)]
        assert closed.stat().st_mode & 0o777 == 0o700
        assert place.home.stat().st_mode & 0o777 == 0o700
        assert str(place.data_dir) in query(place, "SHOW data_directory")[0]
        closed.chmod(0o755)
        assert location(base_dir).data_dir == place.data_dir, "data must not seem lost when modes change"
    finally:
        postgres.release(place)
        postgres.shut_down(place)
        shutil.rmtree(place.home)


@as_root
def test_binaries_that_the_servers_account_cannot_reach(
    new_checkout: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = new_checkout("environment")
    packages = installed_bin_dir().parents[2]
    for tree in packages.glob(f"{PACKAGE}*"):
        shutil.copytree(tree, closed / tree.name)
    # As pip leaves them under umask 077.
    subprocess.run(["chmod", "-R", "go=", closed], check=True)
    monkeypatch.syspath_prepend(closed)
    place = location(new_checkout("open"))
    assert place.home in place.bin_dir.parents
    postgres.ensure_running(place)
    query(place, "CREATE EXTENSION vector")
    assert query(place, "SELECT '[1]'::vector <-> '[3]'") == [(2.0,)]


def test_place_that_cannot_be_written(new_checkout: Callable[[str], Path]) -> None:
    base_dir = new_checkout("occupied")
    (base_dir / "var").touch()
    with pytest.raises(LockError, match="cannot be written"):
        postgres.ensure_running(location(base_dir))


def test_failure_shows_the_end_of_the_log(place: Location) -> None:
    with (place.data_dir / "postgresql.conf").open("a") as settings:
        settings.write("\nno_such_setting = 1\n")
    with pytest.raises(PostgresError, match="no_such_setting"):
        postgres.ensure_running(place)


def test_data_of_another_release_are_left_alone(place: Location) -> None:
    (place.data_dir / "PG_VERSION").write_text("12\n")
    with pytest.raises(PostgresError, match="created by PostgreSQL 12"):
        postgres.ensure_running(place)
