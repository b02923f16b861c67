"""A local model server with OpenAI's API that answers as a test scripts it, well or badly."""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as received, with header names in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply to one request. Without a body, the usual answer is sent. Bytes are sent unchanged."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    is_dropped: bool = False
    # A stream sends these pieces, each after a pause, and then closes the connection.
    pieces: Sequence[bytes] = ()
    pause_seconds: float = 0.0


# A streamed answer comes in pieces of this size.
PIECE_CHARS = 8
SLOW = Reply(delay_seconds=30)
FAILING = Reply(status=500, body={"error": {"message": "internal", "type": "server_error"}})
GARBAGE = Reply(body=b"<html>not what you asked for</html>")
DROPPED = Reply(is_dropped=True)


def busy(seconds: str = "0") -> Reply:
    """Return a 429 that asks to come back after `seconds`."""
    error = {"message": "slow down", "type": "rate_limit_error"}
    return Reply(status=429, body={"error": error}, headers={"Retry-After": seconds})


def refused(status: int = 400, **headers: str) -> Reply:
    """Return an error; `Retry_After="7"` adds the header `Retry-After: 7`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(
        status=status, body={"error": {"message": "no", "type": "invalid_request_error"}}, headers=named
    )


def completion(content: str | None, model: str = "test") -> Reply:
    """Return an answer of /v1/chat/completions."""
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return Reply(
        body={
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model,
            "choices": [choice], "usage": usage,
        }
    )  # fmt: skip


def streamed(
    content: str,
    model: str = "test",
    *,
    pause_seconds: float = 0.0,
    cut: int | None = None,
    is_done: bool = True,
) -> Reply:
    """Return a stream of /v1/chat/completions, sent `cut` bytes at a time or event by event."""
    pieces = [content[at : at + PIECE_CHARS] for at in range(0, len(content), PIECE_CHARS)]
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces
    ]
    if is_done:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        chunks.append(
            {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}
        )
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    events = [f"data: {json.dumps({**common, **chunk})}\n\n".encode() for chunk in chunks]
    if is_done:
        events.append(b"data: [DONE]\n\n")
    if cut:
        whole = b"".join(events)
        events = [whole[at : at + cut] for at in range(0, len(whole), cut)]
    return Reply(pieces=events, pause_seconds=pause_seconds)


def vector_of(text: str, dimensions: int) -> list[float]:
    """Return the server's vector for a text: always the same, and different for another text."""
    rng = Random(blake2b(text.encode(), digest_size=8).digest())
    return [rng.uniform(-1, 1) for _ in range(dimensions)]


def embeddings(texts: Sequence[str], dimensions: int) -> Reply:
    """Return an answer of /v1/embeddings."""
    data = [
        {"object": "embedding", "index": number, "embedding": vector_of(text, dimensions)}
        for number, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return Reply(body={"object": "list", "data": data, "model": "test", "usage": usage})


class ModelServer:
    """Answers `/v1/embeddings` and `/v1/chat/completions` on a free port of this machine.

    Replies in `script` are used first, one for each request. After that, and for a reply without a body,
    `respond` answers; a test may replace it. `seen` lists the requests.

        with ModelServer() as server:
            server.script += [busy("0.1"), FAILING]
            client = openai.OpenAI(base_url=server.base_url, api_key="secret")
    """

    def __init__(self, *, dimensions: int = 8, content: str = "An answer.") -> None:
        self.dimensions = dimensions
        self.content = content
        self.script: deque[Reply] = deque()
        self.seen: list[Seen] = []
        self.respond: Callable[[Seen], Reply] = self.respond_well
        self._closing = Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def respond_well(self, seen: Seen) -> Reply:
        if seen.path.endswith("/embeddings"):
            texts = seen.body["input"]
            return embeddings([texts] if isinstance(texts, str) else texts, self.dimensions)
        if seen.path.endswith("/chat/completions"):
            if seen.body.get("stream"):
                return streamed(self.content, seen.body.get("model", ""))
            return completion(self.content, seen.body.get("model", ""))
        return refused(404)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def _next(self, seen: Seen) -> Reply:
        self.seen.append(seen)
        scripted = self.script.popleft() if self.script else Reply()
        self._closing.wait(scripted.delay_seconds)
        is_own = scripted.body is not None or scripted.is_dropped or scripted.pieces
        return scripted if is_own else self.respond(seen)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = server._next(Seen(self.path, headers, json.loads(text)))
                if reply.is_dropped:
                    self.close_connection = True
                    self.connection.close()
                    return
                try:
                    _send(self, reply, server._closing)
                except (BrokenPipeError, ConnectionResetError):
                    # The client has disconnected.
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing: a test looks at `seen`."""

        return Handler


def _send(handler: BaseHTTPRequestHandler, reply: Reply, closing: Event) -> None:
    """Send a reply: piece by piece until the connection ends, or whole."""
    body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
    kind = "text/event-stream; charset=utf-8" if reply.pieces else "application/json"
    handler.send_response(reply.status)
    for name, value in {"Content-Type": kind, **reply.headers}.items():
        handler.send_header(name, value)
    if not reply.pieces:
        handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.close_connection = bool(reply.pieces)
    for piece in reply.pieces or [body]:
        closing.wait(reply.pause_seconds)
        handler.wfile.write(piece)
        handler.wfile.flush()
