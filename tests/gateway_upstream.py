"""A local upstream that speaks the three protocols in the gateway's tests.

It is a raw server, so a test controls every byte: chunk borders, broken answers and silence.
"""

import asyncio
import json
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Got:
    """A request as it arrived, with header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    """The bytes of an answer, in the pieces in which they are written.

    `is_cut` ends the connection before the answer is complete, `is_silent` never answers.
    """

    pieces: Sequence[bytes]
    pause_seconds: float = 0.0
    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    is_chunked: bool = True
    is_cut: bool = False
    is_silent: bool = False
    delay_seconds: float = 0.0

    @property
    def content(self) -> bytes:
        return b"".join(self.pieces)


type Respond = Callable[[Got], Answer]


def whole(value: object, status: int = 200, **options: Any) -> Answer:
    """Return an answer in one piece with its length."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Answer(
        [body], status=status, headers=[("Content-Type", "application/json")], is_chunked=False, **options
    )


def stream(events: Sequence[bytes], *, seed: int | None = None, **options: Any) -> Answer:
    """Return a stream with one event per piece or, with a seed, cut at random places."""
    pieces: Sequence[bytes] = events
    if seed is not None:
        pieces = cut_anywhere(b"".join(events), random.Random(seed))
    return Answer(pieces, headers=[("Content-Type", "text/event-stream; charset=utf-8")], **options)


def cut_anywhere(body: bytes, rng: random.Random) -> list[bytes]:
    """Cut bytes into pieces of 1 to 40 bytes, also within characters and line breaks."""
    pieces, at = [], 0
    while at < len(body):
        size = rng.randint(1, 40)
        pieces.append(body[at : at + size])
        at += size
    return pieces


def event(value: object, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def chat_answer(text: str = "Restart the worker. Då virker det ✓", model: str = "m") -> dict[str, Any]:
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        ],
        "usage": {
            "prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49,
            "prompt_tokens_details": {"cached_tokens": 16},
        },
    }  # fmt: skip


def chat_events(text: str = "Restart the worker. Då virker det ✓", *, has_usage: bool = True) -> list[bytes]:
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    words = text.split(" ")
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": f"{word} " if at < len(words) - 1 else word}}]}
        for at, word in enumerate(words)
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    if has_usage:
        chunks.append({"choices": [], "usage": chat_answer()["usage"]})
    return [*(event({**common, **chunk}) for chunk in chunks), b"data: [DONE]\n\n"]


def responses_answer(text: str = "Restart the worker.") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed",
        "output": [
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
        ],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "usage": {
            "input_tokens": 50, "output_tokens": 7, "total_tokens": 57,
            "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
        },
    }  # fmt: skip


def responses_events(text: str = "Restart the worker.") -> list[bytes]:
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**responses_answer(""), "usage": None, "output": []}},
        *(
            {"type": "response.output_text.delta", "delta": word, "logprobs": [], **place}
            for word in text.split(" ")
        ),
        {"type": "response.completed", "response": responses_answer(text)},
    ]
    return [event({**one, "sequence_number": number}, one["type"]) for number, one in enumerate(events)]


def messages_answer(text: str = "Restart the worker.") -> dict[str, Any]:
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
        "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {
            "input_tokens": 12, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 5,
            "output_tokens": 7,
        },
    }  # fmt: skip


def messages_events(text: str = "Restart the worker.") -> list[bytes]:
    begun = messages_answer("")
    begun = {**begun, "content": [], "usage": {**begun["usage"], "output_tokens": 1}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
            for word in text.split(" ")
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 7},
        },
        {"type": "message_stop"},
    ]
    return [event(one, one["type"]) for one in events]


def respond_well(got: Got) -> Answer:
    """Answer as a provider does."""
    path = got.target.partition("?")[0]
    wants_stream = b'"stream"' in got.body and got.json.get("stream") is True
    if path.endswith("/chat/completions"):
        return stream(chat_events()) if wants_stream else whole(chat_answer())
    if path.endswith("/responses"):
        return stream(responses_events()) if wants_stream else whole(responses_answer())
    if path.endswith("/messages"):
        return stream(messages_events()) if wants_stream else whole(messages_answer())
    if path.endswith("/models"):
        return whole(
            {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "x"}]}
        )
    return whole({"error": {"message": f"no {path} here", "type": "invalid_request_error"}}, 404)


@dataclass
class Upstream:
    """The server, in a thread with its own event loop. `respond` may be changed at any time."""

    respond: Respond = respond_well
    port: int = 0
    got: list[Got] = field(default_factory=list)
    open_connections: int = 0
    # Connections that the other side ended during the answer.
    left: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=1_000)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_connections += 1
        try:
            while (got := await _read(reader)) is not None:
                self.got.append(got)
                if not await self._write(writer, self.respond(got)):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left += 1
        finally:
            self.open_connections -= 1
            writer.close()

    async def _write(self, writer: asyncio.StreamWriter, answer: Answer) -> bool:
        """Write an answer; return whether the connection stays open."""
        await asyncio.sleep(answer.delay_seconds)
        if answer.is_silent:
            await asyncio.sleep(3_600)
        length = f"Content-Length: {len(answer.content)}"
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in answer.headers)]
        lines.append("Transfer-Encoding: chunked" if answer.is_chunked else length)
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        pieces = answer.pieces[: len(answer.pieces) // 2] if answer.is_cut else answer.pieces
        for piece in filter(None, pieces):
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if answer.is_chunked else piece)
            await writer.drain()
            await asyncio.sleep(answer.pause_seconds)
        if answer.is_cut:
            return False
        if answer.is_chunked:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


async def _read(reader: asyncio.StreamReader) -> Got | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    if headers.get("transfer-encoding") == "chunked":
        parts = []
        while size := int(await reader.readline(), 16):
            parts.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readline()
        return Got(method, target, headers, b"".join(parts))
    return Got(method, target, headers, await reader.readexactly(int(headers.get("content-length", 0))))
