"""Shares a fixed number of threads between teams, so that none of them takes the last one.

A team may use as many threads as it leaves to others: alone half of them, and whoever comes next finds one
(the dynamic thresholds of Choudhury and Hahne, 1998). Its costly requests are served one at a time, and while
other teams are active, with a rest after each. All others wait in their team's line, and the lines are served
in turn.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import NamedTuple

from contextopt.errors import Busy

WAITING_MAX = 100
"""This many of one team's requests may wait in each process; the next one is refused."""

WAIT_SECONDS = 20.0
"""A request that has waited for so long is refused."""

COSTLY_SECONDS = 0.25
"""A request that takes this much processor time is costly, and so is the next one of its kind."""

ACTIVE_SECONDS = 2.0
"""A team is active for this time after one of its requests has begun."""

REST_MAX_SECONDS = 10.0
KINDS_MAX = 10_000

type Turn = asyncio.Future[None]


class Lane(NamedTuple):
    """The requests of one tenant, costly or not. A tenant is a team, or a stranger's address."""

    tenant: Hashable
    is_costly: bool = False


class Turns:
    """The threads of one pool, for one event loop."""

    def __init__(self, threads: int, wait_seconds: float | None = WAIT_SECONDS) -> None:
        self._free = threads
        self._wait_seconds = wait_seconds
        self._running: Counter[Hashable] = Counter()
        self._costly: set[Hashable] = set()
        # The last two tenants whose requests have begun, and when.
        self._latest: tuple[Hashable, float] = (None, float("-inf"))
        self._other: tuple[Hashable, float] = self._latest
        # A line that was served moves to the end.
        self._lines: OrderedDict[Lane, deque[Turn]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, lane: Lane) -> AsyncIterator[None]:
        """Wait for a thread, and hold it for the block. Raises: Busy."""
        if not self.start(lane):
            await self.wait(lane)
        try:
            yield
        finally:
            self.end(lane)

    def start(self, lane: Lane) -> bool:
        """Take a thread, unless the lane has to wait for one."""
        if lane in self._lines or not self._has_room(lane):
            return False
        self._take(lane)
        return True

    async def wait(self, lane: Lane) -> None:
        """Wait in line for a thread, and take it.

        Raises:
            Busy: too many wait in the lane already, or this one has waited for too long.
        """
        line = self._lines.setdefault(lane, deque())
        if len(line) >= WAITING_MAX:
            raise Busy
        turn: Turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            async with asyncio.timeout(self._wait_seconds):
                # Shielded, so that a turn which comes while the wait is cancelled can be passed on.
                await asyncio.shield(turn)
        except (TimeoutError, asyncio.CancelledError) as error:
            if turn.done():
                self.end(lane)
            else:
                self._leave(lane, turn)
            if isinstance(error, TimeoutError):
                raise Busy from error
            raise

    def end(self, lane: Lane, seconds: float = 0.0) -> None:
        """Give the thread back, and start those that have waited for it.

        `seconds` is the processor time that the request took. After a costly one, the next costly one of the
        tenant waits as long again, so that others find a processor.
        """
        self._free += 1
        self._running[lane.tenant] -= 1
        if not self._running[lane.tenant]:
            del self._running[lane.tenant]
        if lane.is_costly:
            others_at = self._other[1] if self._latest[0] == lane.tenant else self._latest[1]
            loop = asyncio.get_running_loop()
            is_resting = loop.time() - others_at < ACTIVE_SECONDS
            loop.call_later(min(seconds, REST_MAX_SECONDS) * is_resting, self._end_rest, lane.tenant)
        self._serve()

    def _end_rest(self, tenant: Hashable) -> None:
        self._costly.remove(tenant)
        self._serve()

    def _serve(self) -> None:
        """Start those who may start, one of each line at a time."""
        while lanes := [each for each in self._lines if self._has_room(each)]:
            for each in lanes:
                if self._has_room(each):
                    self._take(each)
                    self._lines.move_to_end(each)
                    first = self._lines[each][0]
                    self._leave(each, first)
                    first.set_result(None)

    def _has_room(self, lane: Lane) -> bool:
        is_held = lane.is_costly and lane.tenant in self._costly
        return self._running[lane.tenant] < self._free and not is_held

    def _take(self, lane: Lane) -> None:
        if lane.tenant != self._latest[0]:
            self._other = self._latest
        self._latest = (lane.tenant, asyncio.get_running_loop().time())
        self._free -= 1
        self._running[lane.tenant] += 1
        if lane.is_costly:
            self._costly.add(lane.tenant)

    def _leave(self, lane: Lane, turn: Turn) -> None:
        line = self._lines[lane]
        line.remove(turn)
        if not line:
            del self._lines[lane]


class Costs:
    """Remembers which kinds of requests were costly the last time, as far as they were seen lately."""

    def __init__(self) -> None:
        self._costly: OrderedDict[Hashable, None] = OrderedDict()

    def is_costly(self, kind: Hashable) -> bool:
        return kind in self._costly

    def note(self, kind: Hashable, seconds: float) -> None:
        """Remember the processor time that a request of this kind took."""
        if seconds < COSTLY_SECONDS:
            self._costly.pop(kind, None)
            return
        self._costly[kind] = None
        self._costly.move_to_end(kind)
        if len(self._costly) > KINDS_MAX:
            self._costly.popitem(last=False)
