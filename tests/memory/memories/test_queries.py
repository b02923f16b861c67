"""Memories are searched for what a person asks, without what tools add."""

from typing import Any

import pytest
from django.utils import timezone

from contextopt.people.models import Team
from contextopt.spaces.configs import publish_settings
from contextopt.spaces.models import Space
from memory.memories.inputs import HintIn
from memory.memories.models import Memory
from memory.search.inputs import SearchIn
from memory.search.search import find
from memory.steps.candidates import find_memories
from memory.strategies.hints import preview_hint
from tests import factories
from tests.memory.factories import make_memory

ADDED = "EDITOR Who opened the report of the auditors that arrived on Monday? END"
QUESTION = "Which type do we use for prices?"


@pytest.fixture
def space(team: Team) -> Space:
    """A space whose settings name the blocks of a tool."""
    space = factories.make_space(team)
    publish_settings(space=space, created_by="test", tool_patterns="EDITOR … END")
    return space


def searched(team: Team, **request: Any) -> str:
    return find(team=team, request=SearchIn(**request), now=timezone.now()).question.text


def test_what_a_tool_adds_is_not_searched_for(team: Team, space: Space) -> None:
    make_memory(team)
    text = f"{ADDED}\n\n{QUESTION}"
    assert searched(team, query=text, kinds=["memory"]) == QUESTION
    assert searched(team, query=text, space=space.slug) == QUESTION
    # Another space's tools are unknown there.
    other = factories.make_space(team, "other")
    assert "EDITOR" in searched(team, query=text, space=other.slug)


def test_patterns_of_another_team_do_not_count(other_team: Team, space: Space) -> None:
    assert "EDITOR" in searched(other_team, query=f"{ADDED}\n\n{QUESTION}", kinds=["memory"])


def test_a_step_finds_the_memories_of_its_question(team: Team, space: Space) -> None:
    make_memory(team)
    make_memory(team, content="The auditors opened their report on Monday.")
    found = find_memories(team, task=f"{ADDED}\n\n{QUESTION}", repository="")
    assert [item["content"] for item in found.items] == ["Prices are decimals, never floats."]


@pytest.mark.parametrize(
    "added", [ADDED, "<editor>\nThe cursor is in line 12.\n</editor>", "x = f(1)\n" * 40]
)
def test_a_hint_is_for_what_the_person_asks(team: Team, space: Space, strategy: Memory, added: str) -> None:
    """Only the first 200 characters are searched for, and those of tools and pastes are not among them."""
    task = "Fix wrong rounding of the prices in the shopping cart"
    [bare, padded] = [
        preview_hint(team=team, data=HintIn(task=text, repository="shop"))
        for text in (task, f"{added * 3}\n\n{task}")
    ]
    assert (padded.memory_id, padded.similarity) == (strategy.pk, bare.similarity)
