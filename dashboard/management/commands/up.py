"""Serve everything from one command: database, web, gateway, worker and schedule."""

import contextlib
import fcntl
import hashlib
import http.client
import os
import resource
import secrets
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import IO

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser, OutputWrapper
from django.db import connections, transaction
from django.db.models import Q

from config.celery import CHAT_QUEUE, QUEUE
from config.embedded import postgres, schema
from config.embedded.filelocks import open_lock, try_lock
from config.embedded.place import AlreadyUpError, Location, PortInUseError, SetupError
from config.embedded.processes import Program, Supervisor, check_port, end_leftovers, find_free_port
from contextopt.chat import endpoint
from contextopt.management.base import WRITE_FAULTS
from contextopt.people.models import Membership, Role, Team, User
from contextopt.spaces.models import Record

ADMIN_NAME = "admin"
PATIENCE_SECONDS = 60.0
# Without GATEWAY_PORT, the gateway listens so many ports above the web server.
GATEWAY_DISTANCE = 10
# The gateway and each web process accept this many connections, the web beside those of open pages. Clients
# that send slowly hold only their connection, until their deadline, so there must be many.
CONNECTIONS = 4_096
# Headers must be complete after this time. An idle connection is closed after it too.
HEADERS_MS = 20_000
# Files that a process opens beside its connections.
OTHER_FILES = 400
DATABASE_CHECK_SECONDS = 1.0
DATABASE_ASK_SECONDS = 2.0
# A server that does not answer this many times in a row is considered to hang.
DATABASE_SILENCES = 2
EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  (what to ask when all are served)


class Command(BaseCommand):
    help = "Serve everything: database, web, gateway, worker and schedule, until Ctrl-C."
    # The checks load every page, which takes a second that a restart after a crash should not lose.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--port", type=port_number, default=8000, help="port to listen on (8000)")
        parser.add_argument(
            "--web-workers", metavar="N", type=worker_count, default=2, help="web processes (2)"
        )
        parser.add_argument("--no-worker", action="store_true", help="serve web pages only, run no jobs")

    def handle(
        self, *_: object, host: str, port: int, web_workers: int, no_worker: bool, **__: object
    ) -> None:
        try:
            with take_place():
                raise_file_limit()
                if ended := end_leftovers(settings.BASE_DIR):
                    self._say(f"Stopped {ended} processes left over from an earlier run.")
                check_port(host, port)
                gateway_line = settle_gateway(port)
                schema.migrate_if_pending()
                collect_static_files()
                self._welcome()
                has_gateway = settings.GATEWAY_PORT is not None
                to_run = programs(host, port, web_workers, jobs=not no_worker, gateway=has_gateway)
                self._serve(Announcer(host, port, gateway_line, self._say), to_run)
        except SetupError as error:
            raise CommandError(str(error), returncode=2) from error
        except OSError as error:
            if error.errno not in WRITE_FAULTS:
                raise
            raise CommandError(f"writing failed: {error.strerror}", returncode=2) from error

    def _welcome(self) -> None:
        """Tell a newcomer the admin's password, once, and how to load example data."""
        given = os.environ.get("CONTEXTOPT_ADMIN_PASSWORD", "")
        password = given or secrets.token_urlsafe(12)
        if ensure_admin(password):
            shown = "from CONTEXTOPT_ADMIN_PASSWORD" if given else f"{password} (not shown again)"
            self._say(f"Created the first user: {ADMIN_NAME}, password {shown}")
        if not Record.objects.exists():
            self._say("There are no records yet. To load examples: .venv/bin/python manage.py demo load")
        connections.close_all()

    def _serve(self, announcer: "Announcer", to_run: list[Program]) -> None:
        watchers: list[Callable[[], None]] = [announcer]
        if not settings.DATABASE_URL:
            watchers.append(DatabaseKeeper(self._warn))
        supervisor = Supervisor(to_run, settings.BASE_DIR, self._warn, watchers)
        try:
            supervisor.run()
        finally:
            if not settings.DATABASE_URL:
                postgres.stop()
        self._say("Stopped.")

    def _say(self, text: str) -> None:
        write_now(self.stdout, text)

    def _warn(self, text: str) -> None:
        write_now(self.stderr, text)


def write_now(stream: OutputWrapper, text: str) -> None:
    """Write a line. Serving goes on if it is lost, because the disk is full or the reader went away."""
    with contextlib.suppress(OSError):
        stream.write(text)
        stream.flush()


class Announcer:
    """Prints the address and the gateway's line once the web server answers, or says that it does not."""

    def __init__(self, host: str, port: int, gateway_line: str, say: Callable[[str], None]) -> None:
        self.host, self.port, self.say = EVERY_ADDRESS.get(host, host), port, say
        self.gateway_line = gateway_line
        self.done = False
        self.complain_at = time.monotonic() + PATIENCE_SECONDS

    def __call__(self) -> None:
        if self.done:
            return
        if self._answers():
            self.say(f"Contextopt is running at {address_of(self.host, self.port)} (Ctrl-C stops it)")
            self.say(self.gateway_line)
            self.done = True
        elif time.monotonic() > self.complain_at:
            self.say(f"The web server does not respond yet. See {settings.VAR_DIR / 'log' / 'web.log'}")
            self.complain_at += PATIENCE_SECONDS

    def _answers(self) -> bool:
        """Return whether the web server answers without a server error: it may redirect to HTTPS."""
        names = [name.removeprefix(".") for name in settings.ALLOWED_HOSTS if name != "*"]
        connection = http.client.HTTPConnection(self.host, self.port, timeout=1.0)
        try:
            connection.request("GET", "/healthz", headers={"Host": names[0]} if names else {})
            return connection.getresponse().status < 500
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


class DatabaseKeeper:
    """Restarts the embedded server when it has died or hangs."""

    def __init__(self, warn: Callable[[str], None], place: Location | None = None) -> None:
        self.warn = warn
        self.place = place
        self.check_at = self.ask_at = 0.0
        self.silences = 0

    def __call__(self) -> None:
        if time.monotonic() < self.check_at:
            return
        if not postgres.is_running(self.place):
            self._restart("died")
        elif self._hangs():
            postgres.kill(self.place)
            self._restart("stopped responding")

    def _hangs(self) -> bool:
        """Check the server at intervals. A busy one that refuses new clients counts as responding."""
        if time.monotonic() < self.ask_at:
            return False
        self.silences = self.silences + 1 if postgres.is_silent(self.place) else 0
        self.ask_at = time.monotonic() + DATABASE_ASK_SECONDS
        return self.silences >= DATABASE_SILENCES

    def _restart(self, what: str) -> None:
        self.warn(f"The database server {what}. Restarting it.")
        try:
            postgres.ensure_running(self.place)
        except SetupError as error:
            self.warn(str(error))
        self.silences = 0
        self.check_at = time.monotonic() + DATABASE_CHECK_SECONDS


def port_number(text: str) -> int:
    return _bounded(text, 1, 65535)


def worker_count(text: str) -> int:
    return _bounded(text, 1, 64)


def _bounded(text: str, low: int, high: int) -> int:
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
    return int(text)


def take_place() -> IO[bytes]:
    """Lock this checkout for one `up`, as long as the handle is open. Raises: AlreadyUpError."""
    handle = open_lock(settings.VAR_DIR, "up")
    if not try_lock(handle, fcntl.LOCK_EX):
        handle.close()
        raise AlreadyUpError(
            f"Contextopt is already running from this checkout (process {Path(handle.name).read_text()}). "
            f"Stop it with Ctrl-C first. Commands and tests work while it runs."
        )
    try:
        handle.truncate(0)
        os.write(handle.fileno(), str(os.getpid()).encode())
    except OSError:
        handle.close()
        raise
    return handle


def programs(host: str, port: int, web_workers: int, *, jobs: bool, gateway: bool) -> list[Program]:
    web = Program("web", web_command(host, port, web_workers), has_free_workers=True)
    schedule = settings.VAR_DIR / "celerybeat-schedule"
    beat = celery("beat", "--schedule", str(schedule), "--pidfile=")
    served = [web, Program("gateway", gateway_command())] if gateway else [web]
    return [*served, *workers(), Program("beat", beat)] if jobs else served


def raise_file_limit() -> None:
    """Let the processes open as many files as they accept connections, as far as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # A relayed prompt has one connection to its client and another to its model.
    needed = settings.EVENT_STREAMS + 2 * CONNECTIONS + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def connection_options(connections: int, files_each: int) -> tuple[str, ...]:
    """Return a server's options for its connections. It must not run out of files: accepting would fail."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        connections = max(1, min(connections, (soft - OTHER_FILES) // files_each))
    return (
        *("--no-ws", "--backlog", "2048", "--backpressure", str(connections)),
        # With HTTP/2, a connection may stay silent for ever.
        *("--http", "1", "--http1-header-read-timeout", str(HEADERS_MS)),
    )


def web_command(host: str, port: int, web_workers: int) -> tuple[str, ...]:
    return (
        *(sys.executable, "-m", "granian", "config.asgi:application", "--interface", "asginl"),
        *("--host", host, "--port", str(port), "--workers", str(web_workers)),
        *connection_options(settings.EVENT_STREAMS + CONNECTIONS, files_each=1),
        *("--respawn-failed-workers", "--workers-kill-timeout", "5"),
    )


def settle_gateway(web_port: int) -> str:
    """Choose the gateway's port, and return the line about it. The children read it from the environment.

    A port that nobody chose follows that of the web server, so that two installations do not meet.

    Raises:
        PortInUseError: the gateway has an upstream and cannot listen.
    """
    if "GATEWAY_PORT" not in os.environ:
        free = find_free_port(settings.GATEWAY_HOST, web_port + GATEWAY_DISTANCE)
        settings.GATEWAY_PORT = free or settings.GATEWAY_PORT
    line = check_gateway()
    os.environ["GATEWAY_PORT"] = str(settings.GATEWAY_PORT or "")
    return line


def check_gateway() -> str:
    """Return the line about the gateway. Without an upstream, one that cannot listen is switched off."""
    if settings.GATEWAY_PORT is None:
        return "The gateway is off. To switch it on, set GATEWAY_PORT and restart."
    has_upstream = settings.LLM_BASE_URL or settings.ANTHROPIC_BASE_URL
    try:
        check_port(settings.GATEWAY_HOST, settings.GATEWAY_PORT, gateway_port_remedy)
    except PortInUseError as error:
        why = f"cannot use GATEWAY_HOST and GATEWAY_PORT. {error}"
        if has_upstream:
            raise PortInUseError(
                f"The gateway {why} To switch it off, set GATEWAY_PORT to nothing."
            ) from error
        settings.GATEWAY_PORT = None
        return f"The gateway is off. It {why}"
    address = address_of(settings.GATEWAY_HOST, settings.GATEWAY_PORT)
    if has_upstream:
        return f"The gateway is at {address}"
    return f"The gateway is at {address} and has no provider yet. Set LLM_BASE_URL or ANTHROPIC_BASE_URL."


def gateway_port_remedy(free: int) -> str:
    return f"Choose another port for the gateway: set GATEWAY_PORT={free} and restart."


def address_of(host: str, port: int) -> str:
    host = EVERY_ADDRESS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def gateway_command() -> tuple[str, ...]:
    # One worker, because it keeps keys and conversations in memory.
    return (
        *(sys.executable, "-m", "granian", "config.gateway:application", "--interface", "asgi"),
        *("--host", settings.GATEWAY_HOST, "--port", str(settings.GATEWAY_PORT), "--workers", "1"),
        *connection_options(CONNECTIONS, files_each=2),
        *("--respawn-failed-workers", "--workers-kill-timeout", "5"),
    )


def workers() -> list[Program]:
    """Return the worker and, if a model's endpoint is configured, one for the jobs that wait for it."""
    if not endpoint.is_configured():
        return [Program("worker", worker_command("worker", QUEUE, CHAT_QUEUE))]
    return [
        Program("worker", worker_command("worker", QUEUE)),
        Program("chat", worker_command("chat", CHAT_QUEUE)),
    ]


def worker_command(name: str, *queues: str) -> tuple[str, ...]:
    return celery(
        *("worker", "--hostname", f"{name}@%h", "--queues", ",".join(queues)),
        *("--without-gossip", "--without-mingle", "--without-heartbeat"),
    )


def celery(command: str, *options: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "celery", "-A", "config", command, *options, "--loglevel", "INFO")


def collect_static_files() -> None:
    """Fill STATIC_ROOT if a source file has changed since the last time."""
    stamp = settings.VAR_DIR / "static.sha256"
    fingerprint = static_fingerprint()
    if stamp.exists() and settings.STATIC_ROOT.exists() and stamp.read_text() == fingerprint:
        return
    stamp.unlink(missing_ok=True)
    # The pages need only the library from plotly's package.
    ignored = ["datasets", "widgetbundle.js"]
    call_command("collectstatic", interactive=False, clear=True, verbosity=0, ignore_patterns=ignored)
    stamp.write_text(fingerprint)


def static_fingerprint() -> str:
    digest = hashlib.sha256()
    for finder in get_finders():
        for path, storage in finder.list([]):
            status = Path(storage.path(path)).stat()
            digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


@transaction.atomic
def ensure_admin(password: str) -> bool:
    """Create the first user, an administrator of the default team; return False if there was one already."""
    if User.objects.filter(Q(is_superuser=True) | Q(username=ADMIN_NAME)).exists():
        return False
    user = User.objects.create_superuser(ADMIN_NAME, password=password)
    Membership.objects.create(team=Team.objects.ensure_default(), user=user, role=Role.ADMIN)
    return True
