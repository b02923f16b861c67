"""Sends prompts through the gateway and acts as the upstream, in a separate process with one clock.

Run by `gateway.py` with a plan in a file; prints the outcome as JSON.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

# The pause between two chunks of a stream.
CHUNK_SECONDS = 0.1
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
SYLLABLES = ("ba", "lin", "de", "mor", "fi", "tas", "go", "ven", "hu", "dar", "ka", "kel", "le", "nur", "mi")
TURN_WORDS = 700
NOISE = ("ø", "\u2028", "😀", '"', "\\", "1.0e3", "\ud83d", "\t", "工", "é" * 30)


@dataclass(frozen=True, slots=True)
class PromptPlan:
    """The requests to send. `mode` is varied (bytes are compared) or streams (opened at a steady pace).

    A stream's conversation has earlier turns of `earlier_characters` in all, and a short one if it is 0.
    """

    mode: str
    port: int
    upstream_port: int
    key: str
    questions: list[str]
    requests: int
    per_second: float = 0.0
    stream_seconds: float = 0.0
    earlier_characters: int = 0
    at_once: int = 8


@dataclass
class PromptOutcome:
    added_ms: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    changed_bytes: int = 0
    failures: list[str] = field(default_factory=list)
    most_open: int = 0


@dataclass
class Exchange:
    """One request: its bytes, the answer's pieces, and the moments of both sides."""

    path: str
    body: bytes
    pieces: Sequence[bytes]
    pause_seconds: float
    is_stream: bool
    got: bytes = b""
    received_at: float = 0.0
    answered_at: float = 0.0


class Run:
    """The upstream and the clients of one plan. An exchange is found by its number in a header."""

    def __init__(self, plan: PromptPlan) -> None:
        self.plan = plan
        self.outcome = PromptOutcome()
        self.exchanges: dict[int, Exchange] = {}
        self.open = 0

    async def run(self) -> PromptOutcome:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.plan.upstream_port, backlog=1_000)
        await (self._varied() if self.plan.mode == "varied" else self._streams())
        # Do not wait for the server's end: the gateway keeps its connections for a while.
        server.close()
        return self.outcome

    async def _varied(self) -> None:
        numbers = iter(range(self.plan.requests))

        async def work() -> None:
            for number in numbers:
                await self._send(number, varied(number, self.plan.questions))

        await asyncio.gather(*(work() for _ in range(self.plan.at_once)))

    async def _streams(self) -> None:
        started = time.perf_counter()
        sending = []
        for number in range(self.plan.requests):
            await asyncio.sleep(started + number / self.plan.per_second - time.perf_counter())
            exchange = streamed(number, self.plan)
            sending.append(asyncio.create_task(self._send(number, exchange)))
        await asyncio.gather(*sending)

    async def _send(self, number: int, exchange: Exchange) -> None:
        self.exchanges[number] = exchange
        reader, writer = await asyncio.open_connection("127.0.0.1", self.plan.port)
        self.open += 1
        self.outcome.most_open = max(self.outcome.most_open, self.open)
        try:
            await self._exchange(number, exchange, reader, writer)
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            self.outcome.failures.append(f"{number}: {type(error).__name__} {error}")
        finally:
            self.open -= 1
            writer.close()
            del self.exchanges[number]

    async def _exchange(
        self, number: int, exchange: Exchange, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        lines = (
            f"POST {exchange.path} HTTP/1.1", "Host: gateway", "Content-Type: application/json",
            f"X-Contextopt-Key: {self.plan.key}", f"X-Number: {number}",
            f"Content-Length: {len(exchange.body)}",
        )  # fmt: skip
        sent_at = time.perf_counter()
        writer.write("\r\n".join([*lines, "", ""]).encode() + exchange.body)
        headers = _headers(await reader.readuntil(b"\r\n\r\n"))
        body, first_at = await _read_body(reader, headers)
        status = headers.get("x-contextopt-status", "none")
        self.outcome.statuses[status] = self.outcome.statuses.get(status, 0) + 1
        upstream_seconds = exchange.answered_at - exchange.received_at
        self.outcome.added_ms.append((first_at - sent_at - upstream_seconds) * 1_000)
        is_same = body == b"".join(exchange.pieces) and (
            status == "inserted" or exchange.got == exchange.body
        )
        self.outcome.changed_bytes += not is_same

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                headers = _headers(head)
                exchange = self.exchanges[int(headers["x-number"])]
                exchange.got = await reader.readexactly(int(headers["content-length"]))
                exchange.received_at = time.perf_counter()
                await _answer(writer, exchange)
        except (OSError, asyncio.IncompleteReadError):
            # The gateway closes connections that it no longer needs.
            writer.close()


async def _answer(writer: asyncio.StreamWriter, exchange: Exchange) -> None:
    length = sum(map(len, exchange.pieces))
    kind = "text/event-stream" if exchange.is_stream else "application/json"
    framing = "Transfer-Encoding: chunked" if exchange.is_stream else f"Content-Length: {length}"
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{framing}\r\n\r\n".encode())
    exchange.answered_at = time.perf_counter()
    for piece in exchange.pieces:
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if exchange.is_stream else piece)
        await writer.drain()
        await asyncio.sleep(exchange.pause_seconds)
    if exchange.is_stream:
        writer.write(b"0\r\n\r\n")
    await writer.drain()


def _headers(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> tuple[bytes, float]:
    """Return the body and the moment of its first byte."""
    if "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
        return body, time.perf_counter()
    parts, first_at = [], 0.0
    while size := int(await reader.readline(), 16):
        first_at = first_at or time.perf_counter()
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(parts), first_at


def varied(number: int, questions: Sequence[str]) -> Exchange:
    """Return a request and an answer of any protocol, with odd text and odd chunk borders."""
    rng = random.Random(number)
    path = rng.choice(PATHS)
    noise = "".join(rng.choices(NOISE, k=rng.choice((0, 20, 2_000))))
    request = {**_request(path, rng.choice(questions)), "metadata": {"noise": noise, "n": [1.0, 1e22, -0.0]}}
    body = json.dumps(request, indent=rng.choice((None, None, 2))).encode()
    answer = _answer_bytes(path, rng)
    pieces, at = [], 0
    is_stream = rng.random() < 0.7
    while at < len(answer):
        size = rng.randint(1, 400) if is_stream else len(answer)
        pieces.append(answer[at : at + size])
        at += size
    return Exchange(path, body, pieces, 0.0, is_stream)


def streamed(number: int, plan: PromptPlan) -> Exchange:
    """Return the question of a separate conversation, whose answer streams for the plan's seconds."""
    question = f"{plan.questions[number % len(plan.questions)]} ({number})"
    request = _request(PATHS[0], question, _long_talk(number, plan.earlier_characters))
    event = {"choices": [{"index": 0, "delta": {"content": "word "}}]}
    pieces = [b"data: %s\n\n" % json.dumps(event).encode()] * round(plan.stream_seconds / CHUNK_SECONDS)
    body = json.dumps({**request, "stream": True}).encode()
    return Exchange(PATHS[0], body, [*pieces, b"data: [DONE]\n\n"], CHUNK_SECONDS, is_stream=True)


def _long_talk(number: int, characters: int) -> list[dict[str, str]]:
    """Return turns of this many characters in all, each of other words."""
    rng = random.Random(number)
    turns: list[dict[str, str]] = []
    while sum(len(turn["content"]) for turn in turns) < characters:
        said = " ".join(f"{rng.choice(SYLLABLES)}{rng.choice(SYLLABLES)}" for _ in range(TURN_WORDS))
        turns.append({"role": ("user", "assistant")[len(turns) % 2], "content": said})
    return turns


def _request(path: str, question: str, earlier: Sequence[object] = ()) -> dict[str, object]:
    said = [
        *earlier,
        {"role": "user", "content": "We looked at the queue yesterday. " * 20},
        {"role": "assistant", "content": "The workers hold the old lock. " * 20},
        {"role": "user", "content": question},
    ]
    if path == PATHS[1]:
        return {"model": "gpt-4o-mini", "instructions": "Be brief.", "input": said}
    return {"model": "gpt-4o-mini", "messages": said, "max_tokens": 200}


def _answer_bytes(path: str, rng: random.Random) -> bytes:
    text = "".join(rng.choices(NOISE, k=rng.choice((5, 300))))
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "input_tokens": 7, "output_tokens": 3}
    event = {"choices": [{"delta": {"content": text}}], "path": path, "usage": usage}
    return b"data: %s\r\n\r\n" % json.dumps(event, ensure_ascii=rng.random() < 0.5).encode(errors="replace")


def main(path: str) -> None:
    plan = PromptPlan(**json.loads(Path(path).read_text()))
    print(json.dumps(asdict(asyncio.run(Run(plan).run()))))


if __name__ == "__main__":
    main(sys.argv[1])
