"""Clients that do harm, in a separate process that imports nothing of the product.

`slow`: each connection sends the beginning of a request and then one byte from time to time, and is opened
again once the server closes it. `flood`: each connection sends whole requests, the next one as soon as it has
an answer.
"""

import argparse
import asyncio
import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

HOST = "127.0.0.1"
TRICKLE_SECONDS = 2.0
# Connections that are opened at the same time, so that none waits for the machine's own queue.
OPENED_AT_ONCE = 100
ANSWER_SECONDS = 60.0
PAUSE_SECONDS = 0.2
READY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Attack:
    """The requests to send, and the number of connections for them. It ends by itself after `seconds`."""

    mode: str
    port: int
    connections: int
    seconds: float
    # In turn. A slow connection sends the first one's text and never its end.
    requests: Sequence[str]


def request(method: str, path: str, body: str = "", **headers: str) -> str:
    """Return the text of an HTTP request; the length of its body is in its headers."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}", f"Content-Length: {len(body.encode())}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines) + "\r\n\r\n" + body


class Attackers:
    """All connections of an attack."""

    def __init__(self, attack: Attack) -> None:
        self.attack = attack
        self.until = time.monotonic() + attack.seconds
        self.opening = asyncio.Semaphore(OPENED_AT_ONCE)
        self.begun = 0
        self.all_begun = asyncio.Event()

    async def run(self) -> None:
        keep_on = self._keep_slow if self.attack.mode == "slow" else self._keep_flooding
        clients = [asyncio.create_task(keep_on(number)) for number in range(self.attack.connections)]
        with contextlib.suppress(TimeoutError):
            # A server that accepts no more of them is what the attack is meant to show.
            await asyncio.wait_for(self.all_begun.wait(), min(READY_SECONDS, self.attack.seconds / 2))
        print("ready", flush=True)
        await asyncio.wait(clients, timeout=max(0.0, self.until - time.monotonic()))

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with self.opening:
            return await asyncio.open_connection(HOST, self.attack.port)

    def _note_begin(self) -> None:
        self.begun += 1
        if self.begun >= self.attack.connections:
            self.all_begun.set()

    async def _keep_slow(self, _number: int) -> None:
        is_first = True
        while time.monotonic() < self.until:
            with contextlib.suppress(OSError):
                reader, writer = await self._connect()
                writer.write(self.attack.requests[0].encode())
                if is_first:
                    self._note_begin()
                    is_first = False
                await _trickle(reader, writer)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _keep_flooding(self, number: int) -> None:
        requests = cycle([*self.attack.requests[number:], *self.attack.requests[:number]])
        self._note_begin()
        while time.monotonic() < self.until:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                reader, writer = await self._connect()
                while time.monotonic() < self.until:
                    writer.write(next(requests).encode())
                    async with asyncio.timeout(ANSWER_SECONDS):
                        await _read_answer(reader)
            await asyncio.sleep(PAUSE_SECONDS)


async def _trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a byte from time to time until the server answers or closes the connection."""
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TRICKLE_SECONDS):
                await reader.read(1)
                writer.close()
                return
        writer.write(b"a")
        await writer.drain()


async def _read_answer(reader: asyncio.StreamReader) -> None:
    """Raises: asyncio.IncompleteReadError: the server has closed the connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    headers = dict(line.split(": ", 1) for line in head.split("\r\n") if ": " in line)
    if headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readuntil(b"\r\n"), 16):
            await reader.readexactly(size + 2)
        await reader.readexactly(2)
    else:
        await reader.readexactly(int(headers.get("content-length", "0")))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("plan", type=Path, help="a JSON file")
    attack = Attack(**json.loads(parser.parse_args().plan.read_text()))

    async def run() -> None:
        await Attackers(attack).run()

    asyncio.run(run())


if __name__ == "__main__":
    main()
