"""The client as people install it: built as a wheel and installed into a separate folder."""

import importlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from contextopt.people.models import Team
from contextopt.spaces.models import Space
from tests import factories

SOURCE = Path(__file__).parents[2] / "clients/python"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(SOURCE)]
    subprocess.run(build, check=True, timeout=120)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "install", "--no-deps", "--target", str(target), str(wheel)], check=True, timeout=120
    )
    sys.path.insert(0, str(target))
    yield target
    sys.path.remove(str(target))


@pytest.fixture
def load(installed: Path) -> Callable[[str], Any]:
    """Import a module of the installed package."""

    def get(name: str = "") -> Any:
        module = importlib.import_module(f"contextopt_client{name}")
        assert str(module.__file__).startswith(str(installed))
        return module

    return get


@pytest.fixture
def team(transactional_db: None) -> Team:
    return factories.make_team()


@pytest.fixture
def space(team: Team) -> Space:
    space = factories.make_space(team)
    factories.make_record(space, title="Queue stuck", notes="Workers of the old release kept their lock.")
    return space


@pytest.fixture
def secret(team: Team) -> str:
    return factories.make_key(team, name="client")[1]


@pytest.fixture
def place(live_server: LiveServer, secret: str) -> dict[str, str]:
    """The address of the running product, and a key."""
    return {"url": live_server.url, "key": secret}


class Script:
    """A server that gives prepared answers in order, and keeps the headers of each request."""

    def __init__(self, *answers: tuple[int, dict[str, str], object]) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, str]] = []
        script = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                script.asked.append({name.lower(): value for name, value in self.headers.items()})
                status, headers, body = script.answers.pop(0)
                if not status:
                    self.close_connection = True
                    return
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def serve() -> Iterator[Callable[..., Script]]:
    scripts: list[Script] = []

    def start(*answers: tuple[int, dict[str, str], object]) -> Script:
        script = Script(*answers)
        threading.Thread(target=script.server.serve_forever, daemon=True).start()
        scripts.append(script)
        return script

    yield start
    for script in scripts:
        script.server.shutdown()
        script.server.server_close()
