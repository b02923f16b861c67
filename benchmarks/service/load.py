"""Sends requests over keep-alive connections, in a separate process that imports nothing of the product.

`closed`: each client sends the next request as soon as it has an answer. `paced`: requests are due at even
intervals, and each is timed from its due time, so the wait for a stalled server counts.

Bodies are spooled to a file while the clock runs, and their texts are counted again afterwards.
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO

from benchmarks.service.recount import Recount

ANSWER_SECONDS = 30
MOST_REQUESTS = 50_000
FAILURES_KEPT = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """The requests, the target and the duration. `first` and `last` bound the requested moments."""

    mode: str
    port: int
    key: str
    space: str
    first: str
    last: str
    seconds: float
    clients: int
    per_second: float
    budget: int
    seed: int


@dataclass(slots=True)
class Outcome:
    """The milliseconds of each request, the failed ones, and the violations of budgets."""

    took_ms: list[float] = field(default_factory=list)
    seconds: float = 0.0
    failures: int = 0
    examples: list[str] = field(default_factory=list)
    checked: int = 0
    violations: int = 0
    violation_examples: list[str] = field(default_factory=list)


class Client:
    """One keep-alive connection."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def connect(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.plan.port, limit=2**22)

    async def post(self, body: bytes) -> tuple[int, bytes]:
        """Send one request and return status and body."""
        head = (
            "POST /api/v1/assemblies HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {self.plan.key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        lines = answer.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        status = int(lines[0].split()[1])
        if headers.get("transfer-encoding") == "chunked":
            return status, await self._read_chunks()
        return status, await self.reader.readexactly(int(headers["content-length"]))

    async def _read_chunks(self) -> bytes:
        parts = []
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            parts.append(await self.reader.readexactly(size))
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return b"".join(parts)


class Load:
    """One run of the plan."""

    def __init__(self, plan: Plan, spool: IO[bytes]) -> None:
        self.plan = plan
        self.spool = spool
        self.outcome = Outcome()
        self.rng = random.Random(plan.seed)
        self.asked = 0

    async def run(self) -> Outcome:
        clients = [Client(self.plan) for _ in range(self.plan.clients)]
        for client in clients:
            await client.connect()
        drive: Callable[[list[Client]], Awaitable[None]] = (
            self._closed if self.plan.mode == "closed" else self._paced
        )
        started = time.perf_counter()
        await drive(clients)
        self.outcome.seconds = time.perf_counter() - started
        for client in clients:
            client.writer.close()
        return self.outcome

    async def _closed(self, clients: list[Client]) -> None:
        until = time.perf_counter() + self.plan.seconds

        async def keep_asking(client: Client) -> None:
            while (due := time.perf_counter()) < until and self.asked < MOST_REQUESTS:
                await self._ask(client, due)

        await asyncio.gather(*(keep_asking(client) for client in clients))

    async def _paced(self, clients: list[Client]) -> None:
        """Send at even intervals over any free connection. Waiting for one counts as latency."""
        free: asyncio.Queue[Client] = asyncio.Queue()
        for client in clients:
            free.put_nowait(client)
        count = min(int(self.plan.seconds * self.plan.per_second), MOST_REQUESTS)
        started = time.perf_counter() + 0.05

        async def ask_at(due: float) -> None:
            client = await free.get()
            await self._ask(client, due)
            free.put_nowait(client)

        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                due = started + number / self.plan.per_second
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                tasks.create_task(ask_at(due))

    async def _ask(self, client: Client, due: float) -> None:
        self.asked += 1
        async with asyncio.timeout(ANSWER_SECONDS):
            status, body = await client.post(self._body())
        self.outcome.took_ms.append((time.perf_counter() - due) * 1_000)
        if status == 201:
            self.spool.write(body + b"\n")
            return
        self.outcome.failures += 1
        if len(self.outcome.examples) < FAILURES_KEPT:
            self.outcome.examples.append(f"{status}: {body[:300].decode(errors='replace')}")

    def _body(self) -> bytes:
        first, last = datetime.fromisoformat(self.plan.first), datetime.fromisoformat(self.plan.last)
        moment: datetime = first + timedelta(seconds=(last - first).total_seconds() * self.rng.random())
        return json.dumps({"space": self.plan.space, "as_of": moment.isoformat()}).encode()


def recount_spool(spool: IO[bytes], budget: int, outcome: Outcome) -> None:
    recount = Recount()
    spool.seek(0)
    for line in spool:
        answer = json.loads(line)
        recount.check(answer["text"], budget=budget, certificate=answer["certificate"])
    outcome.checked, outcome.violations = recount.checked, recount.violations
    outcome.violation_examples = recount.examples


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("plan", type=Path, help="a JSON file")
    plan = Plan(**json.loads(parser.parse_args().plan.read_text()))
    with tempfile.TemporaryFile() as spool:
        outcome = asyncio.run(Load(plan, spool).run())
        recount_spool(spool, plan.budget, outcome)
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
