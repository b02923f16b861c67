import asyncio
from dataclasses import dataclass

from contextopt.gateway.log import Log
from contextopt.models import GatewayGap, Team
from tests.concurrency import in_own_loop


@dataclass
class Refused:
    """A request that the log cannot write."""

    team_id: int
    size_bytes: int = 0
    lane: int = 0
    after: None = None

    def write(self) -> None:
        raise ValueError("not writable")


async def lose_requests_of(*teams: int) -> None:
    log = Log()
    for team_id in teams:
        log.put(Refused(team_id))
    log.start()
    async with asyncio.timeout(10):
        while log.waiting or log.lost:
            await asyncio.sleep(0.01)
    await log.close()
    log._pool.shutdown()


def test_a_deleted_team_does_not_cost_another_its_count(transactional_db: None, team: Team) -> None:
    in_own_loop(lose_requests_of(team.pk + 1, team.pk, team.pk))
    assert list(GatewayGap.objects.values_list("team", "requests")) == [(team.pk, 2)]
