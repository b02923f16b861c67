"""Memories belong to one team, fade by their type, and can be restored."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.people.models import Team
from memory.memories.inputs import MemoryPatch
from memory.memories.memories import (
    DECAY_SQL,
    HALF_LIVES,
    access_memories,
    delete_memory,
    find_memory,
    restore_memory,
    update_memory,
)
from memory.memories.models import Memory
from memory.memories.rules import HalfLife
from tests import factories
from tests.memory.factories import make_memory


def decay_of(memory: Memory, now) -> float:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {DECAY_SQL} FROM memory_memory t WHERE t.id = %(id)s", {"now": now, "id": memory.pk}
        )
        return cursor.fetchone()[0]


def test_a_memory_is_changed_deleted_and_restored(team: Team) -> None:
    memory = make_memory(team)
    update_memory(
        memory=memory, changes=MemoryPatch(content="Priser er desimaltall og ikke flyttall.", tags=[])
    )
    delete_memory(memory=memory)
    assert delete_memory(memory=memory).deleted_at is not None
    with pytest.raises(Conflict, match="deleted"):
        update_memory(memory=memory, changes=MemoryPatch(title="x"))
    back = restore_memory(memory=memory)
    assert (back.deleted_at, back.language, back.tags) == (None, "no", [])


def test_space_and_task_are_the_teams_own(team: Team, other_team: Team) -> None:
    factories.make_space(other_team, "theirs")
    with pytest.raises(InvalidInput, match="space"):
        make_memory(team, space="theirs")
    with pytest.raises(InvalidInput, match="task_id"):
        make_memory(team, task_id=factories.make_task(other_team).pk)
    space = factories.make_space(team)
    memory = make_memory(team, space=space.slug)
    assert update_memory(memory=memory, changes=MemoryPatch(space=None)).space_id is None


def test_memories_of_others_are_not_found(team: Team, other_team: Team) -> None:
    with pytest.raises(NotFound):
        find_memory(team.pk, make_memory(other_team).pk)


@pytest.mark.parametrize(("memory_type", "days"), [*HALF_LIVES.items(), ("recipe", 30.0)])
def test_half_is_left_after_the_half_life_of_the_type(team: Team, memory_type: str, days: float) -> None:
    memory = make_memory(team, memory_type=memory_type)
    after = memory.created_at + timedelta(days=days)
    assert decay_of(memory, after) == pytest.approx(0.5)
    assert decay_of(memory, memory.created_at - timedelta(days=1)) == 1
    assert decay_of(memory, memory.created_at + timedelta(days=300_000)) >= 0


def test_an_access_lets_decay_begin_anew(team: Team) -> None:
    memory = make_memory(team)
    Memory.objects.update(created_at=timezone.now() - timedelta(days=60))
    assert decay_of(memory, timezone.now()) == pytest.approx(0.25, rel=1e-3)
    access_memories(memory_ids=[memory.pk])
    assert decay_of(memory, timezone.now()) == pytest.approx(1, rel=1e-3)
    assert Memory.objects.get().access_count == 1


def test_a_team_has_half_lives_of_its_own(team: Team, other_team: Team) -> None:
    HalfLife.objects.create(team=team, memory_type="general", days=2)
    memory, theirs = make_memory(team), make_memory(other_team)
    now = memory.created_at + timedelta(days=2)
    assert decay_of(memory, now) == pytest.approx(0.5)
    assert decay_of(theirs, now) == pytest.approx(0.5 ** (2 / 30), rel=1e-3)
