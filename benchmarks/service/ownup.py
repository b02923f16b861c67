"""`manage.py up` in a copy of the checkout with its own database, so that it can be killed without harm."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

from benchmarks.service.server import ServerError, free_port
from config.embedded import postgres
from config.embedded.place import BASE_DIR, location
from config.embedded.remains import postmaster

COPIED = ("config", "contextopt", "dashboard", "memory", "static", "templates", "manage.py")
START_SECONDS = 180.0
FOREIGN = {"DATABASE_URL", "DJANGO_SETTINGS_MODULE", "CELERY_BROKER_URL"}


def wait_until(is_true: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Raises: ServerError if it does not become true in time."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            raise ServerError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.05)


@dataclass
class Endpoint:
    """A language model that answers at once, except for questions that begin with "Slow"."""

    asked: list[str] = field(default_factory=list)
    slow_seconds: float = 2.0

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with contextlib.suppress(OSError):
                    endpoint._answer(self, body["messages"][-1]["content"])

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing: the benchmark prints only its figures."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            server.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler, question: str) -> None:
        self.asked.append(question)
        if question.startswith("Slow"):
            time.sleep(self.slow_seconds)
        message = {"role": "assistant", "content": f"Answer to {question}"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        text = json.dumps(answer | {"usage": usage}).encode()
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)


class Product:
    """One checkout and the `up` that runs from it."""

    def __init__(self, top: Path, model_url: str, variables: Mapping[str, str]) -> None:
        self.top, self.port, self.gateway_port = top, free_port(), free_port()
        kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        self.environment = {**kept, "LLM_BASE_URL": model_url, "GATEWAY_PORT": str(self.gateway_port)}
        self.environment |= variables
        self.process: subprocess.Popen[bytes]
        self.runs = 0

    def up(self) -> None:
        """Start `up` and wait until it serves."""
        self.runs += 1
        output = self.top / f"up-{self.runs}.txt"
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--port", str(self.port)],
                cwd=self.top,
                env=self.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        announced = "Contextopt is running at"
        wait_until(lambda: announced in output.read_text(), seconds=START_SECONDS, what="up")

    def stop(self) -> None:
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=20)

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=self.top, env=self.environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    def child(self, word: str) -> psutil.Process:
        """Wait for the child whose command has this word, and return it."""
        found: list[psutil.Process] = []

        def is_there() -> bool:
            for process in psutil.Process(self.process.pid).children():
                with contextlib.suppress(psutil.Error):
                    if word in process.cmdline():
                        found.append(process)
            return bool(found)

        wait_until(is_there, seconds=START_SECONDS, what=word)
        return found[0]

    def postmaster(self) -> psutil.Process:
        process = postmaster(location(self.top))
        if process is None:
            raise ServerError("the database does not run")
        return process

    @contextlib.contextmanager
    def database(self) -> Iterator[psycopg.Connection[Any]]:
        conninfo = make_conninfo(**postgres.connection_params(location(self.top)))
        with psycopg.connect(conninfo, autocommit=True, connect_timeout=5) as connection:
            yield connection

    def ask(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Query the database. Return nothing while it is down."""
        with contextlib.suppress(psycopg.Error), self.database() as connection:
            return connection.execute(statement.encode(), parameters).fetchall()
        return []


@contextlib.contextmanager
def own_product(model_url: str, **variables: str) -> Iterator[Product]:
    """Run a copy of this checkout with these environment variables."""
    top = Path(tempfile.mkdtemp(prefix="co-kills-"))
    top.chmod(0o755)
    ignored = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        source = BASE_DIR / name
        if source.is_dir():
            shutil.copytree(source, top / name, ignore=ignored)
        else:
            shutil.copy(source, top / name)
    product = Product(top, model_url, variables)
    try:
        product.up()
        yield product
    finally:
        product.stop()
        postgres.shut_down(location(top))
        shutil.rmtree(location(top).home, ignore_errors=True)
        shutil.rmtree(top, ignore_errors=True)
