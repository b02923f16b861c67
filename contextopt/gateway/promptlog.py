"""Writes the log of prompts in the background, after their answers.

The queue is bounded. Entries that don't fit, or are refused for good, are counted and the count is stored, so
that nothing is lost silently. The log waits until the database is back after an outage.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import structlog
from django.db import transaction

from contextopt.gateway.models import GatewayGap
from contextopt.gateway.threads import in_thread
from contextopt.people.models import Team
from contextopt.sql import DATABASE_UNREACHABLE

QUEUE_MAX = 10_000
QUEUE_MAX_BYTES = 128 * 2**20
# One per decider, since a lane mostly waits for a decider.
CONVERSATION_LANES = 2
RETRY_SECONDS = 1.0
CLOSE_SECONDS = 4.0

log = structlog.get_logger(__name__)


class Job(Protocol):
    """A request to write. A second try must not write it twice."""

    @property
    def team_id(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def lane(self) -> int | None:
        """One number per conversation; None for a request outside any."""
        ...

    @property
    def after(self) -> asyncio.Future[bool] | None:
        """Work that must end first, if there is any."""
        ...

    def write(self) -> None: ...


@dataclass
class Log:
    """Lanes of jobs. Each lane writes one job at a time, so that conversations stay in order.

    Jobs outside any conversation use the last lane, where nothing waits for a decider.
    """

    waiting: int = 0
    bytes_waiting: int = 0
    lost: dict[int, int] = field(default_factory=dict)
    _lanes: tuple[asyncio.Queue[Job], ...] = field(
        default_factory=lambda: tuple(asyncio.Queue() for _ in range(CONVERSATION_LANES + 1))
    )
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(CONVERSATION_LANES + 1, "gateway-log")
    )
    _running: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> None:
        self._running = [asyncio.create_task(self._empty(lane)) for lane in self._lanes]

    def put(self, job: Job) -> None:
        if self.waiting >= QUEUE_MAX or self.bytes_waiting + job.size_bytes > QUEUE_MAX_BYTES:
            self._lose(job, "queue_full")
            return
        self.waiting += 1
        self.bytes_waiting += job.size_bytes
        self._lanes[-1 if job.lane is None else job.lane % CONVERSATION_LANES].put_nowait(job)

    async def close(self) -> None:
        """Write what is queued, for a few seconds at most."""
        deadline = asyncio.get_running_loop().time() + CLOSE_SECONDS
        while self.waiting and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.05)
        for lane in self._running:
            lane.cancel()
        if self.waiting:
            log.error("gateway_log_incomplete", requests=self.waiting)

    async def _empty(self, lane: asyncio.Queue[Job]) -> None:
        while True:
            job = await lane.get()
            await self._write(job)
            self.waiting -= 1
            self.bytes_waiting -= job.size_bytes
            if lane.empty():
                await self._store_lost()

    async def _write(self, job: Job) -> None:
        """Write one job, and retry as long as the database cannot be reached."""
        if job.after is not None:
            await asyncio.wait([job.after])
        error = await until_answered(lambda: in_thread(self._pool, job.write))
        if error is not None:
            self._lose(job, type(error).__name__, error)

    def _lose(self, job: Job, why: str, error: BaseException | None = None) -> None:
        log.error("gateway_request_not_logged", reason=why, exc_info=error)
        self.lost[job.team_id] = self.lost.get(job.team_id, 0) + 1

    async def _store_lost(self) -> None:
        if not self.lost:
            return
        lost, self.lost = self.lost, {}
        task = asyncio.create_task(in_thread(self._pool, _store_gaps, lost))
        await asyncio.wait([task])
        if (error := task.exception()) is None:
            return
        self.lost = {team: lost.get(team, 0) + self.lost.get(team, 0) for team in {*lost, *self.lost}}
        if not isinstance(error, DATABASE_UNREACHABLE):
            log.error("gateway_gaps_not_stored", exc_info=error)


async def until_answered(work: Callable[[], Awaitable[object]]) -> BaseException | None:
    """Do the work, and repeat it while the database cannot be reached. Return any other error, or None."""
    while True:
        task = asyncio.ensure_future(work())
        await asyncio.wait([task])
        error = task.exception()
        if not isinstance(error, DATABASE_UNREACHABLE):
            return error
        await asyncio.sleep(RETRY_SECONDS)


@transaction.atomic
def _store_gaps(lost: dict[int, int]) -> None:
    """Store all counts or none, so that a second try counts nothing twice; deleted teams need none."""
    teams = Team.objects.select_for_update(no_key=True).filter(pk__in=lost).order_by("pk")
    GatewayGap.objects.bulk_create(GatewayGap(team=team, requests=lost[team.pk]) for team in teams)
