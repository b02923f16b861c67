"""A real HTTP server that speaks the OpenAI chat protocol, with faults on order."""

import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Behaviour:
    """How the server treats one request."""

    text: str | None = "An answer."
    status: int = 200
    delay_seconds: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    drop: bool = False


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: Any


class LlmServer(ThreadingHTTPServer):
    """Answers in the order of `script`; with an empty script by `default`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: deque[Behaviour] = deque()
        self.default = Behaviour()
        self.received: list[Received] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LlmServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.received.append(Received(self.path, headers, body))
        behaviour = self.server.script.popleft() if self.server.script else self.server.default
        time.sleep(behaviour.delay_seconds)
        if behaviour.drop:
            self.close_connection = True
            self.connection.close()
            return
        self._answer(behaviour, body)

    def _answer(self, behaviour: Behaviour, body: Any) -> None:
        content = behaviour.raw if behaviour.raw is not None else json.dumps(_reply(behaviour, body)).encode()
        try:
            self.send_response(behaviour.status)
            for name, value in {"Content-Type": "application/json", **behaviour.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True  # the client gave up waiting, as a time-out should

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _reply(behaviour: Behaviour, body: Any) -> dict[str, Any]:
    if behaviour.status != 200:
        return {"error": {"message": "scripted fault", "type": "test"}}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body.get("model", ""),
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": behaviour.text},
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


@contextmanager
def running_llm() -> Iterator[LlmServer]:
    server = LlmServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
