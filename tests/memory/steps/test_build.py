"""One call gives an agent all it needs for a step, within the budget, logged and provable."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from contextopt.agents.models import Attempt, Task
from contextopt.agents.standingdocuments import StandingDocument
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.purge import purge_record
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.agents.steps import HINT, NOT_IN_PHASE, NOT_IN_RETRY, RETRY, STANDING
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.engine.values import (
    BUDGET_TOO_SMALL,
    NOT_INDEXED,
    NOTHING_RELEVANT,
    TASK_STOPPED,
    TASK_WAITS,
)
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.people.models import Team
from contextopt.repositories.models import Repository
from contextopt.search import registry
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.spaces.models import Record, Space
from memory.memories.models import Memory
from memory.steps.candidates import LOW_RELEVANCE, SENT_BEFORE
from memory.steps.inputs import AgentStepIn
from memory.steps.step import StepResult
from memory.strategies.models import StrategyUse
from tests import factories
from tests.gitrepos import SHOP
from tests.memory.factories import make_memory
from tests.memory.steps.conftest import MANIFEST, TASK

TOKENIZER = get_tokenizer("cl100k_base")
DIAGNOSIS = {"root_cause": "implementation_error", "reason": "Off by one"}


def section(result: StepResult, name: str) -> Any:
    return next((each for each in result.sections if each.name == name), None)


def ids(result: StepResult, name: str, *, kept: bool = True) -> list[str]:
    found = section(result, name)
    return [item.id for item in found.items if item.kept == kept] if found else []


def payload_of(result: StepResult) -> AssemblyPayload:
    assert result.assembly is not None
    return AssemblyPayload.objects.select_related("assembly").get(pk=result.assembly.pk)


def test_a_planning_step_brings_everything_together(
    build: Any, shop: Repository, space: Space, team: Team
) -> None:
    result = build(phase="planning", space=space.slug)
    names = [each.name for each in result.sections]
    assert names == [STANDING, "package_manifest", "tree", "files", "memories", "docs", HINT]
    text = result.text
    assert "## Standing documents\n### Style\n> Round at the last step only.\n" in text
    assert f"## Package manifest\n> {MANIFEST.splitlines()[0]}\n" in text
    assert ">   cart.py\n" in text
    assert "### shop/prices.py\n> from shop.currency import convert\n" in text
    assert "Prices are decimals, never floats." in text
    assert "[EXTERNAL DATA " in text
    assert "other shop" not in text
    assert "> - [note] Prices are rounded per line" in text
    assert "[STRATEGY HINT " in text
    record = Record.objects.get(space=space)
    assert ids(result, "docs") == [f"record {record.pk}"]
    assert f"## Docs\n> Space: {space.name}\n" in text
    assert ids(result, "package_manifest") == ["pyproject.toml"]
    assert not result.warnings
    task = Task.objects.get(pk=result.asked.task.pk)
    assert (task.description, task.repository) == (TASK, "shop")


def test_records_are_those_of_the_moment(build: Any, shop: Repository, space: Space) -> None:
    record = Record.objects.get(space=space)
    before = record.date - timedelta(days=2)
    early = build(space=space.slug, as_of=before)
    assert ids(early, "docs") == []
    assert "## Docs" not in early.text
    result = build(space=space.slug, as_of=record.date)
    assert ids(result, "docs") == [f"record {record.pk}"]
    assert payload_of(result).request["as_of"] == record.date.isoformat()


def test_records_that_match_nothing_stay_out(build: Any, shop: Repository, team: Team) -> None:
    other = factories.make_space(team, "recipes")
    for number in range(60):
        factories.make_record(other, title=f"Menu {number}", notes="Bake the trout with dill and butter.")
    ensure_embedded(registry.get("record"), other.pk, limit=99)
    result = build(phase="planning", space=other.slug)
    docs = section(result, "docs")
    assert (docs.kept, docs.counts) == (0, {LOW_RELEVANCE: 60})
    assert "## Docs" not in result.text
    assert NOTHING_RELEVANT in [warning.code for warning in result.warnings]
    assert not any(entry["kept"] for entry in result.entries)
    assert verify_assembly(payload_of(result)) == []
    Record.objects.filter(space=other, title="Menu 7").update(pinned=True)
    assert "> - [note] Menu 7" in build(phase="planning", space=other.slug).text


def test_of_the_records_only_those_that_match_are_sent(build: Any, shop: Repository, space: Space) -> None:
    for number in range(9):
        factories.make_record(space, title=f"Menu {number}", notes="Bake the trout with dill and butter.")
    ensure_embedded(registry.get("record"), space.pk, limit=99)
    result = build(phase="planning", space=space.slug)
    record = Record.objects.get(space=space, title__startswith="Prices")
    assert ids(result, "docs") == [f"record {record.pk}"]
    assert {entry["reason"] for entry in result.entries if not entry["kept"]} <= {
        LOW_RELEVANCE, "duplicate_of", "over_budget",
    }  # fmt: skip
    assert "trout" not in result.text
    assert verify_assembly(payload_of(result)) == []


def test_the_log_proves_every_figure(build: Any, shop: Repository, space: Space, team: Team) -> None:
    result = build(phase="planning", space=space.slug, model="m")
    payload = payload_of(result)
    row = payload.assembly
    assert (row.kind, row.phase, row.team, row.task) == ("agent", "planning", team, result.asked.task)
    assert (row.tokens_before, row.tokens_available, row.space) == (None, 20_000, None)
    assert (row.tokens_saved, row.not_counted) == (None, "nothing to compare with")
    assert row.tokens_after == result.certificate.tokens == TOKENIZER.count(payload.text)
    assert payload.text == result.text
    assert verify_assembly(payload) == []
    assert payload.ledger["sections"] == [each.to_json() for each in result.sections]
    payload.ledger["sections"][0]["tokens"] += 1
    assert [each.figure for each in verify_assembly(payload)] == ["tokens of all sections"]


def test_a_phase_gets_what_its_profile_keeps(build: Any, shop: Repository, space: Space) -> None:
    building = build(phase="building", space=space.slug)
    assert [each.name for each in building.sections] == [STANDING, "package_manifest", "files"]
    completing = build(phase="completing")
    assert [each.name for each in completing.sections] == [STANDING]
    assert completing.asked.budget == 2_000


def test_only_planning_gets_a_hint_and_counts_it(build: Any, shop: Repository) -> None:
    assert section(build(phase="reviewing"), HINT) is None
    assert not StrategyUse.objects.exists()
    result = build(phase="planning")
    use = StrategyUse.objects.get()
    assert (use.task, use.assembly, result.use) == (result.asked.task, result.assembly, use)
    assert use.memory.memory_type == "strategy"
    assert Assembly.objects.filter(kind="hint").count() == 0
    small = build(phase="planning", budget=20)
    assert (small.use, StrategyUse.objects.count()) == (None, 1)


def test_a_stored_task_brings_its_repository(build: Any, shop: Repository, team: Team) -> None:
    task = factories.make_task(team, repository="shop")
    result = build(task_id=task.pk, phase="building")
    assert result.asked.repository == shop
    assert Task.objects.filter(description=task.description).count() == 1


@pytest.mark.parametrize("budget", [20, 30, 120, 400, 1_000])
def test_the_asked_budget_holds(build: Any, shop: Repository, space: Space, budget: int) -> None:
    result = build(phase="planning", space=space.slug, budget=budget)
    assert TOKENIZER.count(result.text) == result.certificate.tokens <= budget
    assert verify_assembly(payload_of(result)) == []
    if budget < 120:
        warnings = [each for each in result.warnings if each.code == BUDGET_TOO_SMALL]
        assert f"The budget of {budget} tokens has no room for" in warnings[-1].message
        assert {(each.remedy.setting, each.remedy.value) for each in warnings} == {("budget", 20_000)}


def test_a_space_whose_records_do_not_fit_takes_no_room(build: Any, shop: Repository, space: Space) -> None:
    Space.objects.filter(pk=space.pk).update(description="All about the shop. " * 9)
    for budget in range(20, 300, 20):
        result = build(phase="planning", space=space.slug, budget=budget)
        assert ("## Docs" in result.text) == bool(ids(result, "docs"))


def test_a_greater_budget_than_the_phase_has_changes_nothing(build: Any, shop: Repository) -> None:
    assert build(phase="reviewing", budget=100_000).asked.budget == 12_000


def test_the_callers_own_context_comes_first_and_is_what_is_compared(build: Any, shop: Repository) -> None:
    context = {
        "tree": "mine\n",
        "files": [{"path": "shop/cart.py", "content": "total = 1\n"}],
        "memories": [{"id": "m1", "content": "Mine."}],
        "docs": ["My guide.\n" * 2_000],
    }
    result = build(phase="building", context=context)
    assert "### shop/cart.py\n> total = 1\n" in result.text
    assert ids(result, "files")[0] == "shop/cart.py"
    assert ids(result, "files").count("shop/cart.py") == 1
    assert section(result, "memories").counts == {NOT_IN_PHASE: 1}
    assert ids(result, "memories", kept=False) == ["m1"]
    assert result.full_tokens == TOKENIZER.count(payload_of(result).baseline_text or "")
    assert result.saved_tokens == result.full_tokens - result.certificate.tokens > 0
    assert verify_assembly(payload_of(result)) == []


def test_a_replan_is_compared_with_what_a_planner_would_be_sent(build: Any, team: Team) -> None:
    """That is task, plan and diagnosis, but no context and no error, and none of our marks."""
    context = {"files": [{"path": "cart.py", "content": "total = 1\n"}]}
    task = factories.make_task(team, description="Round the prices")
    failure = {
        "plan": "Look\nRound",
        "error": "Traceback\n" * 900,
        "diagnosis": {"root_cause": "bad_plan", "reason": "Too early"},
    }
    result = build(task_id=task.pk, phase="planning", context=context, failure=failure)
    payload = payload_of(result)
    assert payload.baseline_text == (
        "## Task\nRound the prices\n\n## Plan\nLook\nRound\n\n## Diagnosis\nbad_plan — Too early.\n"
    )
    assert result.full_tokens == TOKENIZER.count(payload.baseline_text)
    assert verify_assembly(payload) == []


def test_a_repository_that_is_not_indexed_is_said(build: Any, team: Team) -> None:
    task = factories.make_task(team, repository="elsewhere")
    result = build(task_id=task.pk, phase="building")
    assert [warning.code for warning in result.warnings] == [NOT_INDEXED]
    assert result.text == ""


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ({"phase": "dreaming"}, InvalidInput, "there is no phase 'dreaming'; there are: confidence"),
        ({"repository": "nowhere"}, NotFound, "There is no repository 'nowhere'"),
        ({"space": "nowhere"}, NotFound, "There is no space 'nowhere'"),
        ({"task_id": 2**40}, NotFound, "There is no task"),
    ],
)
def test_what_does_not_exist_is_named_and_nothing_is_stored(
    build: Any, shop: Repository, data: dict[str, Any], error: type[Exception], words: str
) -> None:
    before = Task.objects.count(), Assembly.objects.count()
    with pytest.raises(error, match=words):
        build(**data)
    assert (Task.objects.count(), Assembly.objects.count()) == before


@pytest.mark.parametrize("data", [{}, {"task_id": 1, "task": "x"}, {"task": " "}, {"task": "x", "a": 1}])
def test_a_step_is_about_one_task(data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AgentStepIn(**data)


def test_nothing_of_another_team_is_found(build: Any, shop: Repository, other_team: Team) -> None:
    theirs = factories.make_task(other_team)
    factories.make_repository(other_team, name="theirs")
    factories.make_space(other_team, "rivals")
    for data in ({"task_id": theirs.pk}, {"repository": "theirs"}, {"space": "rivals"}):
        with pytest.raises(NotFound):
            build(**data)


def test_a_purged_record_is_erased_from_the_text(build: Any, shop: Repository, space: Space) -> None:
    second = factories.make_record(space, title="The cart adds up", source="notes", external_id="n1")
    result = build(phase="planning", space=space.slug)
    assert f"record {second.pk}" in ids(result, "docs")
    purge_record(record=second)
    payload = payload_of(result)
    assert payload.purged_at is not None
    assert "The cart adds up" not in payload.text
    assert "> - [purged]\n" in payload.text
    assert "n1" not in str(payload.ledger)
    assert payload.text.count("\n") == result.text.count("\n")
    assert verify_assembly(payload) == []
    for record in Record.objects.filter(space=space).exclude(pk=second.pk):
        purge_record(record=record)
    erased = payload_of(result).text
    assert erased.count("> - [purged]\n") == 2
    assert f"## Docs\n> Space: {space.name}\n" in erased


# After a failed attempt


def fail(**overrides: Any) -> dict[str, Any]:
    return {"diagnosis": DIAGNOSIS, "error": "E  assert 7 == 8", "plan": ["Round it"], **overrides}


def test_a_failure_is_recorded_and_its_delta_is_in_the_text(build: Any, shop: Repository) -> None:
    first = build(phase="building")
    task_id = first.asked.task.pk
    cart = SHOP["shop/cart.py"].replace("sum(", "round(sum(")
    files = {"shop/cart.py": cart, "shop/mail.py": SHOP["shop/mail.py"]}
    second = build(task_id=task_id, phase="building", failure=fail(files=files))
    attempt = Attempt.objects.get()
    assert (second.attempt, attempt.assembly) == (attempt, second.assembly)
    assert Assembly.objects.filter(kind="retry").count() == 0
    assert [each.name for each in second.sections] == [RETRY]
    assert ids(second, RETRY) == ["attempt 1", "shop/cart.py"]
    assert "return round(sum(" in second.text
    assert "## Latest error\n> E  assert 7 == 8\n" in second.text
    assert second.to_json()["task"].endswith("[RETRY 1] Diagnosis: implementation_error — Off by one.")
    assert verify_assembly(payload_of(second)) == []
    third = build(task_id=task_id, phase="building", failure=fail(files=files))
    assert ids(third, RETRY) == ["attempt 2"]
    again = build(task_id=task_id, phase="building")
    reasons = {item.reason for item in section(again, "files").items if item.id == "shop/cart.py"}
    assert reasons == {SENT_BEFORE}


def test_a_retry_is_sent_only_what_changed(build: Any, shop: Repository, space: Space) -> None:
    """A receiver without an earlier step also gets what every step has."""
    context = {"tree": "mine\n", "memories": ["Mine."], "docs": ["My guide."], "files": {"a.py": "x = 1\n"}}
    failure = fail(files={"a.py": "x = 2\n"}, before={"a.py": "x = 1\n"})
    result = build(phase="planning", space=space.slug, context=context, failure=failure)
    assert [each.name for each in result.sections if each.kept] == [STANDING, RETRY]
    assert section(result, "memories").counts == {NOT_IN_RETRY: 1}
    assert {"Mine.", "My guide.", "mine"}.isdisjoint(result.text.split("\n> "))
    assert "### a.py\n[FULL FILE]\n> x = 2\n" in result.text
    assert verify_assembly(payload_of(result)) == []
    task = {"task_id": result.asked.task.pk, "phase": "planning"}
    assert [each.name for each in build(**task, failure=fail()).sections] == [RETRY]
    attached = StandingDocument.objects.get()
    attached.content = "Round first.\n"
    attached.save()
    assert ids(build(**task, failure=fail()), STANDING) == ["Style"]


def test_a_replan_is_the_plan_and_its_diagnosis(build: Any, shop: Repository, space: Space) -> None:
    task = build(phase="planning", space=space.slug).asked.task
    failure = fail(plan="Look\nRound", diagnosis={"root_cause": "bad_plan", "reason": "Too early"})
    result = build(task_id=task.pk, phase="planning", space=space.slug, failure=failure)
    assert result.text == (
        f"## Task\n> {TASK}\n\n## Plan\n> Look\n> Round\n\n## Diagnosis\n> bad_plan — Too early.\n"
    )


def test_missing_context_brings_everything(build: Any, shop: Repository, space: Space) -> None:
    first = build(phase="building", failure=fail(files={"shop/cart.py": "total = 1\n"}))
    failure = fail(diagnosis={"root_cause": "missing_context"})
    result = build(task_id=first.asked.task.pk, phase="building", space=space.slug, failure=failure)
    kept = {each.name for each in result.sections if each.kept}
    assert kept == {STANDING, "package_manifest", "tree", "files", "memories", "docs", RETRY}
    # The newest version that the receiver was sent, not that of the index.
    assert "### shop/cart.py\n> total = 1\n" in result.text
    assert ids(result, "files")[0] == "shop/cart.py"
    assert verify_assembly(payload_of(result)) == []


def test_a_delta_recorded_before_is_brought_again(build: Any, shop: Repository, team: Team) -> None:
    lines = [f"price_{number} = {number}\n" for number in range(60)]
    task = factories.make_task(team, repository="shop", files={"cart.py": "".join(lines)})
    made = factories.make_attempt(task, files={"cart.py": "".join(["price = 1\n", *lines])})
    sent = made.retry.sent
    assert sent is not None
    for phase in ("building", "completing"):
        result = build(task_id=task.pk, phase=phase)
        assert result.text.endswith(sent.render())
        assert result.attempt is None
    other = build(task_id=task.pk, phase="completing", receiver="reviewer")
    assert section(other, RETRY) is None


def test_a_change_that_does_not_fit_moves_no_base(build: Any, team: Team) -> None:
    old = {f"f{n}.py": f"value = {n}\n" for n in range(9)}
    new = {path: text.replace("value", "price") for path, text in old.items()}
    task = factories.make_task(team, files=old)
    first = build(task_id=task.pk, phase="completing", budget=150, failure=fail(files=new))
    kept, dropped = ids(first, RETRY)[1:], ids(first, RETRY, kept=False)
    assert kept
    assert dropped
    assert BUDGET_TOO_SMALL in [warning.code for warning in first.warnings]
    second = build(task_id=task.pk, phase="completing", failure=fail(files=new))
    assert ids(second, RETRY)[1:] == dropped


def test_without_files_nothing_counts_as_deleted(build: Any, team: Team) -> None:
    task = factories.make_task(team, files={"a.py": "x = 1\n"})
    result = build(task_id=task.pk, phase="completing", failure=fail())
    assert ids(result, RETRY) == ["attempt 1"]
    after = build(task_id=task.pk, phase="completing", failure=fail(files={"a.py": "x = 2\n"}))
    assert ids(after, RETRY) == ["attempt 2", "a.py"]
    assert "[NEW FILE]" not in after.text


def test_missing_context_sends_the_posted_files_again(build: Any, team: Team) -> None:
    task = factories.make_task(team, files={"a.py": "x = 1\n"})
    failure = fail(diagnosis={"root_cause": "missing_context"}, files={"a.py": "x = 2\n"})
    result = build(task_id=task.pk, phase="building", failure=failure)
    assert result.attempt is not None
    assert result.attempt.action == "refetch"
    assert "## Files\n### a.py\n> x = 2\n" in result.text
    again = build(task_id=task.pk, phase="building", failure=fail(files={"a.py": "x = 2\n"}))
    assert ids(again, RETRY) == ["attempt 2"]


@pytest.mark.parametrize(
    ("cause", "code", "kinds"),
    [("environment_error", TASK_WAITS, ["retry"]), ("impossible_task", TASK_STOPPED, [])],
)
def test_nothing_is_sent_to_a_task_that_waits_or_stops(
    build: Any, team: Team, cause: str, code: str, kinds: list[str]
) -> None:
    task = factories.make_task(team, files={"a.py": "x = 1\n"})
    result = build(task_id=task.pk, failure=fail(diagnosis={"root_cause": cause, "reason": "No network"}))
    assert (result.text, result.assembly, result.certificate.tokens) == ("", None, 0)
    assert [warning.code for warning in result.warnings] == [code]
    assert list(Assembly.objects.filter(task=task).values_list("kind", flat=True)) == kinds
    assert task.receiver_files.count() == 1


def test_a_closed_task_accepts_no_failure(build: Any, team: Team) -> None:
    task = factories.make_task(team)
    Task.objects.filter(pk=task.pk).update(state="completed")
    with pytest.raises(Conflict, match="accepts no more attempts"):
        build(task_id=task.pk, failure=fail())
    assert build(task_id=task.pk, phase="completing").text == ""


def test_strategies_leave_room_for_memories(build: Any, shop: Repository, team: Team) -> None:
    Memory.objects.all().delete()
    decision = make_memory(team, content=f"Decided: {TASK}", repository="shop")
    for number in range(45):
        make_memory(team, content=f"{TASK}, step {number}", repository="shop", memory_type="strategy")
    assert ids(build(phase="reviewing"), "memories") == [f"memory {decision.pk}"]


def test_memories_that_do_not_suit_are_named(build: Any, shop: Repository, team: Team) -> None:
    Memory.objects.all().delete()
    far = make_memory(team, content="Qwertz uiop", tags=[])
    result = build(phase="reviewing")
    assert ids(result, "memories", kept=False) == [f"memory {far.pk}"]
    assert section(result, "memories").counts == {"low_relevance": 1}
