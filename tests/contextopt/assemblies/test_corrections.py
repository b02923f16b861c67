"""An upgrade corrects the savings that earlier versions logged, and lists them."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from contextopt.agents.handoffs.compression import handed_findings
from contextopt.agents.handoffs.findings import compress_phase
from contextopt.agents.handoffs.inputs import CompressIn
from contextopt.agents.retries import AttemptResult
from contextopt.agents.timeline.account import verify_handoffs
from contextopt.assemblies.corrections import CorrectedSavings, list_corrections
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.briefs.findings import render_finding
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.models import (
    Assembly,
    AssemblyPayload,
    Attempt,
    HandoffSettings,
    PhaseCompression,
    Task,
    Team,
)
from memory.steps.inputs import AgentStepIn
from memory.steps.step import build_step
from tests.factories import (
    make_advance,
    make_agent_context,
    make_attempt,
    make_filtering,
    make_finding,
    make_task,
)

UPGRADE = import_module("contextopt.migrations.0061_true_savings")
TOKENIZER = get_tokenizer("cl100k_base")
FILES = {"cart.py": "price_7 = 7\n> quoted\n" * 30}
pytestmark = pytest.mark.django_db


def payload_of(assembly_id: int | None) -> AssemblyPayload:
    return AssemblyPayload.objects.select_related("assembly").get(pk=assembly_id)


def age(payload: AssemblyPayload, text: str, chars: list[int] | None = None, **ledger: Any) -> None:
    """Store the row as an earlier version did: with this baseline, and always as sent."""
    before = TOKENIZER.count(text)
    payload.baseline_text, payload.ledger = text, payload.ledger | ledger
    payload.ledger["chars"]["before"] = payload.ledger["chars"]["before"] if chars is None else chars
    payload.save()
    row = payload.assembly
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE contextopt_assembly DISABLE TRIGGER contextopt_assembly_immutable")
        Assembly.objects.filter(pk=row.pk).update(
            tokens_before=before,
            is_sent=True,
            tokens_available=payload.config.get("budget_tokens", max(before, row.tokens_after)),
        )
        cursor.execute("ALTER TABLE contextopt_attempt DISABLE TRIGGER contextopt_attempt_immutable")
        Attempt.objects.filter(assembly=row.pk).update(full_tokens=before)
        for table in ("assembly", "attempt"):
            cursor.execute(f"ALTER TABLE contextopt_{table} ENABLE TRIGGER contextopt_{table}_immutable")


def upgrade() -> None:
    with connection.schema_editor() as editor:
        UPGRADE.forwards(apps, editor)


def corrected(team: Team) -> dict[tuple[str, str], CorrectedSavings]:
    return {(each.kind, each.reason): each for each in list_corrections([team])}


def figures(assembly_id: int | None) -> tuple[Any, ...]:
    payload = payload_of(assembly_id)
    row = payload.assembly
    return row.tokens_before, row.tokens_available, row.is_sent, payload.baseline_text


def marked_baseline(result: AttemptResult) -> str:
    baseline = result.retry.baseline
    assert baseline is not None
    return baseline.marked.render()


def test_marks_leave_the_baselines_of_retries_and_phases(team: Team) -> None:
    task = make_task(team, files=FILES)
    result = make_attempt(task, files=FILES | {"cart.py": "price_7 = 8\n> quoted\n" * 30}, error="\n" * 5_000)
    assert result.retry.plan.action == "retry"
    retry, phase = result.attempt.assembly_id, make_filtering(team, "building").id
    now = {key: figures(key) for key in (retry, phase)}
    age(payload_of(retry), marked_baseline(result))
    age(payload_of(phase), make_agent_context().render())
    was = payload_of(retry).assembly
    assert (was.tokens_saved or 0) > 5_000
    upgrade()
    assert {key: figures(key) for key in (retry, phase)} == now
    assert Attempt.objects.get().full_tokens == now[retry][0]
    assert all(verify_assembly(payload_of(key)) == [] for key in (retry, phase))
    found = corrected(team)[("retry", "marks")]
    after = payload_of(retry).assembly.tokens_saved
    assert (found.assemblies, found.saved_before, found.saved_after) == (1, was.tokens_saved, after)
    assert set(corrected(team)) == {("retry", "marks"), ("phase", "marks")}
    assert str(found) == (
        f"Corrected by an upgrade: 1 retry delta, {after:,} tokens saved instead of {was.tokens_saved:,}, "
        "since marks that only Contextopt adds are not part of the full context."
    )


def old_replan(task: Task, attempt: Attempt) -> str:
    parts = [("Task", task.description), ("Plan", attempt.plan), ("Latest error", attempt.error)]
    diagnosis = attempt.diagnosis
    parts.append(("Diagnosis", f"{diagnosis['root_cause']} — {diagnosis['reason']}."))
    return "\n".join(f"## {name}\n{part}" for name, part in parts if part)


@pytest.mark.parametrize("plan", ["", "Look\n## Latest error\nin the plan"])
def test_a_replan_loses_its_error(team: Team, plan: str) -> None:
    task = make_task(team, description="Round prices. " * 40)
    result = make_attempt(task, root_cause="bad_plan", plan=plan, error="Traceback\n" * 300)
    attempt = result.attempt
    payload = payload_of(attempt.assembly_id)
    task_, *plan_, diagnosis = payload.ledger["chars"]["before"][-3:]
    chars = [task_, *plan_, len(attempt.error), diagnosis]
    age(payload, old_replan(task, attempt), chars, baseline="the task, plan, error and diagnosis in full")
    assert (payload_of(payload.pk).assembly.tokens_saved or 0) > 300
    upgrade()
    payload = payload_of(payload.pk)
    assert payload.baseline_text == old_replan(task, Attempt(plan=plan, diagnosis=attempt.diagnosis))
    assert payload.ledger["baseline"] == "the task, plan and diagnosis in full"
    assert verify_assembly(payload) == []
    assert Attempt.objects.get().saved_tokens == payload.assembly.tokens_saved
    assert set(corrected(team)) == {("retry", "replan")}
    before = figures(payload.pk)
    upgrade()
    assert figures(payload.pk) == before


@pytest.mark.parametrize("error", ["", "Traceback\n" * 300, "no line break"])
def test_a_replan_within_an_agents_context(team: Team, error: str) -> None:
    task = make_task(team, description="Round prices")
    context = {"files": [{"path": "cart.py", "content": "total = 1\n> quoted\n"}]}
    failure = {"plan": "Look", "error": error, "diagnosis": {"root_cause": "bad_plan"}}
    request = {"task_id": task.pk, "phase": "planning", "context": context, "failure": failure}
    built = build_step(team=team, data=AgentStepIn.model_validate(request), actor="test").assembly
    assert built is not None
    payload = payload_of(built.pk)
    marked = "## Files\n### cart.py\n> total = 1\n> > quoted\n\n## Plan\n> Look\n"
    if error:
        marked += "\n## Latest error\n" + "".join(f"> {line}\n" for line in error.splitlines())
    *chars, _, plan, _ = payload.ledger["chars"]["before"]
    age(payload, marked, [*chars, plan, len(error)])
    upgrade()
    payload = payload_of(built.pk)
    assert payload.baseline_text == (
        "## Files\n### cart.py\ntotal = 1\n> quoted\n\n## Plan\nLook\n\n## Task\nRound prices\n\n"
        "## Diagnosis\nbad_plan.\n"
    )
    assert verify_assembly(payload) == []
    assert set(corrected(team)) <= {("agent", "replan")}


def compress(task: Task) -> PhaseCompression:
    return compress_phase(team_id=task.team_id, task_id=task.pk, data=CompressIn(), actor="test")


def test_hand_offs_that_nobody_received_or_that_lose_findings(team: Team) -> None:
    HandoffSettings.objects.create(team=team, phase="analysis", brief_tokens=30)
    text = "The export of orders locks the table for minutes because every row is rewritten at once."
    task = make_task(team)
    make_finding(task, category="risks", content={"risk": "Rounding loses cents."})
    compress(task)
    for number in range(4):
        make_finding(task, content={"description": f"{text} It is case {number}."})
    for content in ({"description": text}, {"description": f"{text} Twice."}):
        make_advance(task)
        make_finding(task, category="changes", content=content)
    compress(task)
    rows = list(PhaseCompression.objects.order_by("pk"))
    assert [(row.phase, row.version) for row in rows] == [
        ("analysis", 1), ("analysis", 2), ("design", 1), ("implementation", 1),
    ]  # fmt: skip
    now = [figures(row.assembly_id) for row in rows]
    known: set[str] = set()
    for row in rows:
        new = [finding for finding in handed_findings(row) if finding.id not in known]
        known |= {finding.id for finding in new}
        age(payload_of(row.assembly_id), "".join(map(render_finding, new)))
    upgrade()
    assert [figures(row.assembly_id) for row in rows] == now
    assert [row[2] for row in now] == [False, True, True, False]
    assert list(verify_handoffs(team.pk)) == []
    found = corrected(team)
    assert set(found) == {("handoff", "unreceived"), ("handoff", "replaced")}
    assert found["handoff", "unreceived"].assemblies == 2
    assert found["handoff", "unreceived"].saved_after == 0
    assert found["handoff", "replaced"].saved_after < found["handoff", "replaced"].saved_before


def test_a_hand_off_that_loses_all(team: Team) -> None:
    HandoffSettings.objects.create(team=team, phase="analysis", brief_tokens=20)
    task = make_task(team)
    text = "The export of orders locks the table for minutes because every row is rewritten at once."
    make_finding(task, content={"description": text})
    row = compress(task)
    age(payload_of(row.assembly_id), "".join(map(render_finding, handed_findings(row))), [200])
    upgrade()
    assert figures(row.assembly_id) == (None, 0, True, None)
    assert set(corrected(team)) == {("handoff", "lost")}
