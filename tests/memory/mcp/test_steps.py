"""Answers of `task_step`: within the limit for any text, and of one task from call to call."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from contextopt.agents.inputs import StandingDocumentIn
from contextopt.agents.models import Attempt, Task
from contextopt.agents.standingdocuments import attach_document
from contextopt.assemblies.models import Assembly
from contextopt.people.models import Scope, Team
from memory.mcp.callers import Caller, enter
from memory.mcp.tools import TOKENS_MIN, task_step
from tests import factories
from tests.gitrepos import SHOP
from tests.memory.factories import make_memory
from tests.memory.mcp.conftest import Door, text_of
from tests.memory.mcp.test_contexts import size, texts


class WithinTheLimit(TestCase):
    """A repository, memories and records that are long as JSON."""

    team: Team

    @classmethod
    def setUpTestData(cls) -> None:
        cls.team = factories.make_team()
        factories.make_repository(cls.team)
        factories.make_space(cls.team)

    @settings(max_examples=8)
    @given(st.lists(texts, min_size=1, max_size=6), st.integers(TOKENS_MIN, 3_000))
    @example(['"\\' * 2_000] * 4, TOKENS_MIN)
    def test_the_whole_result_is_within_max_tokens(self, notes: list[str], max_tokens: int) -> None:
        for number, text in enumerate(notes):
            make_memory(self.team, content=f"Rounding {text}")
            document = StandingDocumentIn(repository="shop", title=f"Rule {number}", content=f"- {text}")
            attach_document(team=self.team, data=document, actor="test")
        enter(lambda: Caller(self.team, "key:test", Scope.WRITE))
        answer = task_step(task="Fix rounding", repository="shop", space="support", max_tokens=max_tokens)
        assert size(answer) <= max_tokens
        task, assembly = Task.objects.latest("id"), Assembly.objects.latest("id")
        assert answer.startswith(f"Task {task.pk}, phase planning, context {assembly.pk}.")
        failed = task_step(
            task_id=task.pk, error="\n".join(notes), files={"a.py": notes[0]}, max_tokens=max_tokens
        )
        assert size(failed) <= max_tokens
        assert Assembly.objects.latest("id").tokens_after <= max_tokens


def test_a_task_goes_on_from_step_to_step(door: Door, team: Team) -> None:
    factories.make_repository(team)
    first = text_of(door.call("task_step", task="Round the cart", repository="shop", phase="building"))
    task = Task.objects.get()
    assert first.startswith(f"Task {task.pk}, phase building, context {Assembly.objects.get().pk}.")
    assert "### shop/cart.py\n> from shop.prices import price_of\n" in first
    second = text_of(
        door.call(
            "task_step",
            task_id=task.pk,
            phase="diagnosis",
            error="E  assert 1 == 2",
            plan="Round once",
            files={"shop/cart.py": SHOP["shop/cart.py"] + "X = 1\n"},
        )
    )
    assert "## Latest error\n> E  assert 1 == 2\n" in second
    assert "X = 1" in second
    assert Attempt.objects.get().root_cause == "implementation_error"


def test_a_task_that_stops_is_sent_nothing(door: Door, team: Team) -> None:
    task = factories.make_task(team)
    answer = text_of(door.call("task_step", task_id=task.pk, root_cause="impossible_task"))
    assert answer == (
        f"Task {task.pk}, phase planning, nothing is sent.\nWarning task_stopped: The task is impossible."
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "task: give task_id, or use task for a new one"),
        ({"task": "x", "task_id": 1}, "task: give task_id, or use task for a new one"),
        ({"task_id": 2**40}, "There is no task 1099511627776."),
        ({"task": "x", "phase": "dreaming"}, "phase: there is no phase 'dreaming'"),
        ({"task": "x", "repository": "nowhere"}, "There is no repository 'nowhere'."),
        ({"task": "x", "space": "nowhere"}, "There is no space 'nowhere'."),
        ({"task": "x", "plan": "Round once"}, "plan: give error or root_cause with it"),
        ({"task": "x", "files": {"a.py": "X = 1"}}, "files: give error or root_cause with it"),
        ({"task": "x", "max_tokens": 10}, "max_tokens: must be at least 200"),
        ({"task": "x", "budget": 10}, "budget: is not an argument of task_step."),
    ],
)
def test_a_fault_is_named(door: Door, arguments: dict[str, Any], words: str) -> None:
    answer = door.call("task_step", **arguments)
    assert answer.is_error
    assert text_of(answer).startswith(words)
    assert Task.objects.count() == 0


@pytest.mark.parametrize("scope", [Scope.READ])
def test_a_key_that_may_only_read_is_refused(address: str, team: Team, scope: Scope) -> None:
    secret = factories.make_key(team, scope)[1]
    answer = Door("http", "2026-07-28", secret, address).call("task_step", task="Round the cart")
    assert answer.is_error
    assert "scope write" in text_of(answer)
