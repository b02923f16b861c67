"""`remember` keeps the same text once, however often it is called, even at the same time."""

import pytest

from contextopt.people.models import Scope, Team
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import delete_record
from memory.mcp.callers import Caller
from memory.mcp.handlers import keep_memory, keep_record
from memory.memories.models import Memory
from tests.concurrency import at_once

TEXT = {"title": "Retries", "content": "Three, then stop.", "kind": "decision", "tags": ["queue"]}


@pytest.fixture
def caller(team: Team) -> Caller:
    return Caller(team, "key:agent", Scope.WRITE)


def test_the_same_memory_at_the_same_moment_is_kept_once(caller: Caller) -> None:
    made = at_once(*[lambda: keep_memory(caller, **TEXT)] * 6)
    assert sum(is_new for _, is_new in made) == 1
    memory = Memory.objects.get()
    assert (memory.memory_type, memory.tags, memory.trust_level) == ("decision", ["queue"], "agent")


def test_a_deleted_record_is_kept_again(caller: Caller, space: Space) -> None:
    number, _ = keep_record(caller, "support", **TEXT)
    delete_record(record=Record.objects.get(pk=number), actor="test")
    assert keep_record(caller, "support", **TEXT) == (number, True)
    assert keep_record(caller, "support", **TEXT) == (number, False)
    assert Record.objects.live().get(title="Retries").pk == number
