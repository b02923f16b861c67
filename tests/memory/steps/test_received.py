"""A step brings the hand-off of the phase before, and the task's account shows it."""

from typing import Any

import pytest

from contextopt.agents.handoffs.models import PhaseCompression
from contextopt.agents.models import HandoffPhase, Task
from contextopt.agents.timeline.account import (
    add_up,
    read_named_accounts,
    read_phase_accounts,
    verify_account,
)
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.agents.steps import HANDOFF, RETRY
from contextopt.engine.text.quoting import mark
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.errors import InvalidInput
from contextopt.people.models import Team
from memory.steps.received import NOT_HANDED_ON
from memory.steps.step import StepResult
from tests import factories
from tests.contextopt.agents.handoffs.journeys import bundle_of

TOKENIZER = get_tokenizer("cl100k_base")


@pytest.fixture
def handed(team: Team) -> Task:
    """A task in design: analysis has handed on a critical finding and a brief, and left out a guess."""
    task = factories.make_task(team)
    factories.make_finding(task, tags=["critical"], content={"description": "Prices are in shop/cart.py."})
    factories.make_finding(task, content={"description": "The table prices has the column amount."})
    factories.make_finding(task, content={"description": "It may rain."}, confidence=0.1)
    return factories.make_advance(task)


def names_of(result: StepResult) -> list[str]:
    return [item.id for each in result.sections if each.name == HANDOFF for item in each.items if item.kept]


def test_planning_receives_what_analysis_hands_on(build: Any, handed: Task) -> None:
    result = build(task_id=handed.pk, phase="planning")
    compression = PhaseCompression.objects.get()
    section = next(each for each in result.sections if each.name == HANDOFF)
    assert names_of(result) == ["F-001", "brief"]
    assert [(item.id, item.reason) for item in section.items if not item.kept] == [("F-003", NOT_HANDED_ON)]
    assert section.counts == {NOT_HANDED_ON: 1}
    bundle = bundle_of(handed)
    critical = bundle.handed_text.removesuffix(compression.brief)
    assert result.text == (
        f"## Hand-off from analysis\n{mark(critical)}### Brief\n{mark(compression.brief)}\n"
    )
    assert section.tokens == result.certificate.tokens == TOKENIZER.count(result.text)
    assert result.to_json()["handoff"] == {"phase": "analysis", "version": 1, "parts": 2}
    assert compression.consumed_at is not None
    payload = AssemblyPayload.objects.get(pk=result.assembly.pk)
    assert verify_assembly(payload) == []


@pytest.mark.parametrize(
    ("phase", "profile", "receives"),
    [
        ("confidence", "confidence", None), ("planning", "planning", "analysis"),
        ("building", "building", "design"), ("diagnosis", "diagnosis", "design"),
        ("reviewing", "reviewing", "design"), ("completing", "completing", None),
        ("analysis", "planning", None), ("design", "planning", "analysis"),
        ("implementation", "building", "design"),
    ],
)  # fmt: skip
def test_either_name_of_a_phase_is_accepted(
    build: Any, handed: Task, phase: str, profile: str, receives: str | None
) -> None:
    factories.make_finding(handed, content={"description": "The cart rounds in round_total()."})
    factories.make_advance(handed)
    result = build(task_id=handed.pk, phase=phase).to_json()
    assert (result["phase"], result["profile"]) == (phase, profile)
    assert (result["handoff"] or {"phase": None})["phase"] == receives


def test_a_team_joins_the_phases_itself(build: Any, handed: Task, team: Team) -> None:
    factories.make_link(team, "security", profile="reviewing", receives="analysis")
    assert build(task_id=handed.pk, phase="security").handoff["phase"] == "analysis"
    factories.make_link(team, "security", receives=None)
    assert build(task_id=handed.pk, phase="security").handoff is None
    with pytest.raises(
        InvalidInput, match=r"there is no phase 'dreaming'; there are: .* implementation, security"
    ):
        build(task_id=handed.pk, phase="dreaming")


def test_a_later_finding_makes_a_new_version(build: Any, handed: Task) -> None:
    build(task_id=handed.pk, phase="planning")
    factories.make_finding(
        handed, phase="analysis", tags=["critical"], content={"description": "Forgot this."}
    )
    result = build(task_id=handed.pk, phase="planning")
    assert "Forgot this." in result.text
    assert result.handoff["version"] == 2


def test_what_is_not_handed_on_yet_is_named(build: Any, team: Team) -> None:
    task = factories.make_task(team)
    assert not build(task_id=task.pk, phase="planning").warnings
    factories.make_finding(task)
    result = build(task_id=task.pk, phase="planning")
    assert names_of(result) == []
    assert [each.message for each in result.warnings] == [
        "The task is still in analysis, so these findings are not handed on yet: F-001."
    ]


def test_the_budget_holds_and_what_has_no_room_is_named(build: Any, handed: Task) -> None:
    for budget in range(20, 120, 10):
        result = build(task_id=handed.pk, phase="planning", budget=budget)
        assert result.certificate.tokens <= budget
        missing = 2 - len(names_of(result))
        assert any(f"{missing} of" in each.message for each in result.warnings) == bool(missing)


def test_a_retry_does_not_bring_again_what_its_receiver_has(build: Any, handed: Task) -> None:
    failure = {"error": "E", "diagnosis": {"root_cause": "implementation_error"}}
    step = {"task_id": handed.pk, "phase": "planning"}
    first = build(**step, failure=failure)
    assert [each.name for each in first.sections] == [HANDOFF, RETRY]
    assert [each.name for each in build(**step, failure=failure).sections] == [RETRY]
    other = build(**step, failure=failure, receiver="other")
    assert [each.name for each in other.sections] == [HANDOFF, RETRY]
    factories.make_finding(handed, phase="analysis", tags=["critical"], content={"description": "New."})
    assert names_of(build(**step, failure=failure)) == ["F-001", "F-004", "brief"]


def test_a_hand_off_is_compared_once(build: Any, handed: Task) -> None:
    """Its saving is logged when it is made, so in a step it is on both sides."""
    context = {"tools": ["grep", "sed"]}
    alone = build(task_id=factories.make_task(handed.team).pk, phase="planning", context=context)
    result = build(task_id=handed.pk, phase="planning", context=context)
    sizes = [TOKENIZER.count(text) for text in (alone.text, result.text)]
    assert sizes[0] < sizes[1]
    handed_on = TOKENIZER.count("## Hand-off from analysis\n")
    assert abs(result.saved_tokens - alone.saved_tokens) < handed_on + 9
    payload = AssemblyPayload.objects.get(pk=result.assembly.pk)
    assert "Prices are in shop/cart.py." in payload.baseline_text
    assert verify_assembly(payload) == []


def test_the_account_shows_six_phases_and_three_hand_offs(
    build: Any, handed: Task, django_assert_num_queries: Any
) -> None:
    for phase in ("planning", "design", "building"):
        build(task_id=handed.pk, phase=phase, context={"files": {"a.py": "x = 1\n" * 99}, "tree": "a.py"})
    factories.make_attempt(handed)
    # The team's phases, its links, and the sums.
    with django_assert_num_queries(3):
        named = read_named_accounts(handed)
    assert list(named.agent_phases)[:6] == [
        "confidence", "planning", "building", "diagnosis", "reviewing", "completing",
    ]  # fmt: skip
    assert [named.agent_phases[name].assemblies for name in ("planning", "building")] == [2, 1]
    assert list(named.handoffs) == list(HandoffPhase)
    assert named.handoffs[HandoffPhase.ANALYSIS].compared == 1
    assert named.without_phase.assemblies == 1
    total = add_up(read_phase_accounts(handed).values())
    assert add_up([*named.agent_phases.values(), named.without_phase, *named.handoffs.values()]) == total
    rows = AssemblyPayload.objects.filter(assembly__task=handed).select_related("assembly")
    assert list(verify_account(handed.pk, rows)) == []
    assert set(Assembly.objects.filter(kind="agent").values_list("phase", flat=True)) == {
        "planning",
        "building",
    }
