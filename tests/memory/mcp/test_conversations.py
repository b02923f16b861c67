"""Contexts of one conversation over MCP."""

import pytest
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Scope
from contextopt.spaces.models import Space
from memory.mcp.callers import Caller, enter
from memory.mcp.tools import get_context
from tests.factories import make_record

pytestmark = pytest.mark.django_db
QUESTION = "Why is the queue stuck?"


@pytest.fixture
def agent(space: Space) -> Space:
    enter(lambda: Caller(space.team, "key:agent", Scope.WRITE))
    make_record(space, title="Queue stuck", notes="A worker held the old lock.", date=timezone.now())
    return space


def test_a_conversation_gets_each_record_once(agent: Space) -> None:
    first = get_context(agent.slug, QUESTION, conversation="c-1")
    assert "Queue stuck" in first
    make_record(agent, title="Queue moved", notes="It runs on another machine.", date=timezone.now())
    second = get_context(agent.slug, QUESTION, conversation="c-1")
    assert "Queue stuck" not in second
    assert "Queue moved" in second
    block = Assembly.objects.earliest("pk")
    assert f"Records already shown in context {block.pk} are not repeated." in second
    assert Assembly.objects.latest("pk").carried_tokens == block.tokens_after


def test_other_conversations_and_none_get_all(agent: Space) -> None:
    get_context(agent.slug, QUESTION, conversation="c-1")
    assert "Queue stuck" in get_context(agent.slug, QUESTION, conversation="c-2")
    assert "Queue stuck" in get_context(agent.slug, QUESTION)


def test_a_key_that_may_only_read_gets_all_again(agent: Space) -> None:
    enter(lambda: Caller(agent.team, "key:agent", Scope.READ))
    for _ in range(2):
        assert "Queue stuck" in get_context(agent.slug, QUESTION, conversation="c-1")
