import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.errors import Busy
from contextopt.fairness import COSTLY_SECONDS, KINDS_MAX, WAITING_MAX, Costs, Lane, Turns
from tests.concurrency import in_own_loop


class Hall:
    """Requests that hold their thread until they are let go."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self._inside: dict[asyncio.Task[None], Lane] = {}
        self._leaving: dict[asyncio.Task[None], asyncio.Event] = {}

    async def enter(self, lane: Lane) -> asyncio.Task[None]:
        leaving = asyncio.Event()

        async def visit() -> None:
            async with self.turns.turn(lane):
                self._inside[task] = lane
                try:
                    await leaving.wait()
                finally:
                    del self._inside[task]

        task = asyncio.create_task(visit())
        self._leaving[task] = leaving
        await settle()
        return task

    @property
    def inside(self) -> list[Lane]:
        return list(self._inside.values())

    def is_inside(self, task: asyncio.Task[None]) -> bool:
        return task in self._inside

    async def let_go(self, *tasks: asyncio.Task[None]) -> None:
        for task in tasks:
            self._leaving[task].set()
        await settle()

    async def let_all_go(self) -> None:
        for _ in self._leaving:
            await self.let_go(*self._leaving)
        assert not self.inside


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def run[Result](story: Coroutine[Any, Any, Result]) -> Result:
    return in_own_loop(story)


def test_a_team_alone_gets_half_and_the_next_ones_find_room() -> None:
    async def story() -> list[int]:
        hall = Hall(Turns(8))
        counts = []
        for team in (1, 2, 3, 4):
            for _ in range(10):
                await hall.enter(Lane(team))
            counts.append(hall.inside.count(Lane(team)))
        await hall.let_all_go()
        return counts

    assert run(story()) == [4, 2, 1, 1]


def test_one_costly_request_at_a_time_keeps_no_cheap_one_waiting() -> None:
    async def story() -> None:
        hall = Hall(Turns(8))
        costly = [await hall.enter(Lane(1, is_costly=True)) for _ in range(3)]
        await hall.enter(Lane(1))
        await hall.enter(Lane(2, is_costly=True))
        assert sorted(hall.inside) == [Lane(1), Lane(1, is_costly=True), Lane(2, is_costly=True)]
        await hall.let_go(costly[0])
        assert costly[0].done()
        assert hall.inside.count(Lane(1, is_costly=True)) == 1
        await hall.let_all_go()

    run(story())


def test_costly_requests_rest_while_others_are_active() -> None:
    async def story() -> None:
        turns, costly = Turns(8), Lane(1, is_costly=True)
        # Alone, the next one may start at once.
        assert turns.start(costly)
        turns.end(costly, seconds=60.0)
        await asyncio.wait_for(turns.wait(costly), 5)
        assert turns.start(Lane(2))
        turns.end(costly, seconds=60.0)
        await settle()
        assert not turns.start(costly)
        assert turns.start(Lane(1))
        # A rest ends by itself.
        assert turns.start(Lane(2, is_costly=True))
        turns.end(Lane(2, is_costly=True), seconds=0.01)
        await asyncio.wait_for(turns.wait(Lane(2, is_costly=True)), 5)

    run(story())


def test_lines_are_served_in_turn() -> None:
    async def story() -> list[object]:
        hall = Hall(Turns(1))
        visits = {await hall.enter(Lane(team)) for team in "aaaabbc"}
        served = []
        while hall.inside:
            served.append(hall.inside[0].tenant)
            # Only the one inside is let go. The others go on waiting.
            await hall.let_go(*[each for each in visits if hall.is_inside(each)])
        return served

    assert run(story()) == list("aabcaba")


def test_a_long_line_and_a_long_wait_are_refused() -> None:
    async def story() -> None:
        hall = Hall(Turns(1, wait_seconds=None))
        await hall.enter(Lane(1))
        waiting = [await hall.enter(Lane(1)) for _ in range(WAITING_MAX)]
        refused = await hall.enter(Lane(1))
        assert isinstance(refused.exception(), Busy)
        assert not any(task.done() for task in waiting)
        await hall.let_all_go()

        impatient = Turns(1, wait_seconds=0.01)
        async with impatient.turn(Lane(1)):
            with pytest.raises(Busy):
                await impatient.wait(Lane(1))
        assert impatient.start(Lane(1))

    run(story())


def test_whoever_stops_waiting_leaves_no_gap() -> None:
    async def story() -> None:
        hall = Hall(Turns(1))
        holder = await hall.enter(Lane(1))
        gone, patient = await hall.enter(Lane(1)), await hall.enter(Lane(1))
        gone.cancel()
        await hall.let_go(holder)
        assert gone.cancelled()
        assert hall.inside == [Lane(1)]
        # One whose turn comes at the moment in which it leaves passes it on.
        late, next_one = await hall.enter(Lane(1)), await hall.enter(Lane(1))
        hall._leaving[patient].set()
        await asyncio.sleep(0)
        late.cancel()
        await settle()
        assert late.cancelled()
        assert hall.inside == [Lane(1)]
        await hall.let_go(next_one)
        assert hall.turns.start(Lane(2))

    run(story())


STEPS = st.tuples(st.sampled_from(["enter", "leave", "cancel"]), st.integers(0, 3), st.booleans())


@given(st.lists(STEPS, max_size=60))
def test_threads_are_neither_lost_nor_lent_twice(steps: list[tuple[str, int, bool]]) -> None:
    async def story() -> None:
        hall = Hall(Turns(4))
        tasks: list[asyncio.Task[None]] = []
        for step, number, is_costly in steps:
            if step == "enter":
                tasks.append(await hall.enter(Lane(number, is_costly)))
            elif tasks and step == "leave":
                await hall.let_go(tasks.pop(number % len(tasks)))
            elif tasks:
                tasks.pop(number % len(tasks)).cancel()
                await settle()
            assert len(hall.inside) <= 4
            costly = [lane for lane in hall.inside if lane.is_costly]
            assert len(costly) == len(set(costly))
        await hall.let_all_go()
        assert [hall.turns.start(Lane(tenant)) for tenant in range(5)] == [True] * 4 + [False]

    run(story())


def test_a_kind_is_costly_as_long_as_its_last_request_was() -> None:
    costs = Costs()
    costs.note("a", COSTLY_SECONDS)
    assert costs.is_costly("a")
    costs.note("a", COSTLY_SECONDS / 2)
    assert not costs.is_costly("a")


def test_the_kinds_seen_last_are_remembered() -> None:
    costs = Costs()
    for number in range(KINDS_MAX + 1):
        costs.note(number, 1.0)
    assert not costs.is_costly(0)
    assert costs.is_costly(KINDS_MAX)
