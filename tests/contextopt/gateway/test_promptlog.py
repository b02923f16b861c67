import asyncio
from dataclasses import dataclass, field
from typing import cast

from contextopt.gateway.models import GatewayGap
from contextopt.gateway.promptlog import Log, RequestJob
from contextopt.people.models import Team
from tests.concurrency import in_own_loop


@dataclass
class Refused:
    """A request that the log cannot write."""

    team_id: int
    size_bytes: int = 0
    lane: int | None = 0
    after: None = None

    def write(self) -> None:
        raise ValueError("not writable")


@dataclass
class Noted:
    """A request that is written to a list."""

    name: str
    written: list[str] = field(repr=False)
    lane: int | None
    after: asyncio.Future[bool] | None = None
    team_id: int = 1
    size_bytes: int = 0

    def write(self) -> None:
        self.written.append(self.name)


async def lose_requests_of(*teams: int) -> None:
    log = Log()
    for team_id in teams:
        log.put(cast("RequestJob", Refused(team_id)))
    log.start()
    async with asyncio.timeout(10):
        while log.waiting or log.lost:
            await asyncio.sleep(0.01)
    await log.close()
    log._pool.shutdown()


def test_a_deleted_team_does_not_cost_another_its_count(transactional_db: None, team: Team) -> None:
    in_own_loop(lose_requests_of(team.pk + 1, team.pk, team.pk))
    assert list(GatewayGap.objects.values_list("team", "requests")) == [(team.pk, 2)]


async def fail_to_store(lost: dict[int, int]) -> dict[int, int]:
    log = Log(lost=lost)
    await log._store_lost()
    log._pool.shutdown()
    return log.lost


def test_counts_that_cannot_be_stored_are_kept(transactional_db: None, team: Team) -> None:
    assert in_own_loop(fail_to_store({team.pk: 2**31})) == {team.pk: 2**31}


async def write_beside_a_late_context() -> tuple[list[str], list[str]]:
    """Return what is written before a conversation's context is logged, and what afterwards."""
    log, written = Log(), list[str]()
    context = asyncio.get_running_loop().create_future()
    log.put(cast("RequestJob", Noted("first", written, lane=7, after=context)))
    log.put(cast("RequestJob", Noted("second", written, lane=7)))
    log.put(cast("RequestJob", Noted("of no conversation", written, lane=None)))
    log.start()
    async with asyncio.timeout(10):
        while log.waiting > 2:
            await asyncio.sleep(0.01)
        before = list(written)
        context.set_result(True)
        while log.waiting:
            await asyncio.sleep(0.01)
    await log.close()
    log._pool.shutdown()
    return before, written


def test_only_its_own_conversation_waits_for_a_context(transactional_db: None) -> None:
    before, after = in_own_loop(write_beside_a_late_context())
    assert before == ["of no conversation"]
    assert after == ["of no conversation", "first", "second"]
