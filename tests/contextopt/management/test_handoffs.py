"""add_finding, compress_phase, advance_phase and task_status as a shell sees them."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from contextopt.agents.handoffs.models import Finding
from contextopt.agents.models import Task
from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from tests.commands import Run
from tests.factories import make_finding, make_task

RISK = {"category": "risks", "content": {"description": "Floats in shop/cart.py", "severity": "high"}}


@pytest.fixture
def task(db: None) -> Task:
    return make_task(Team.objects.ensure_default(), external_id="CART-17")


def test_from_a_finding_to_the_last_phase(run: Run, write: Any) -> None:
    file = write({**RISK, "tags": ["critical"]})
    code, out, _ = run("add_finding", "T-1", file, "--create", "Round prices", "--json")
    answer = json.loads(out)
    assert (code, answer["phase"], answer["findings"][0]["id"]) == (0, "analysis", "F-001")
    for expected in ("design", "implementation"):
        _, out, _ = run("add_finding", "T-1", file, "--json")
        _, out, _ = run("compress_phase", "T-1", "--json")
        compressed = json.loads(out)["knowledge_pool"]["phase_compressions"]
        code, out, _ = run("advance_phase", answer["id"], "--to", expected, "--json")
        answer = json.loads(out)
        assert (code, answer["phase"]) == (0, expected)
        assert answer["knowledge_pool"]["phase_compressions"] == compressed
    analysis = answer["knowledge_pool"]["phase_compressions"]["analysis"]
    assert analysis["critical_findings"] == ["F-001", "F-002"]
    assert {"brief", "token_count"} <= set(analysis)
    assert json.loads(run("task_status", "T-1", "--json")[1]) == answer
    assert Assembly.objects.filter(kind="handoff").count() == 2
    code, out, _ = run("verify_savings", "--json")
    assert json.loads(out)["differences"] == []
    code, _, err = run("advance_phase", "T-1")
    assert (code, "no findings" in err or "last phase" in err) == (2, True)


def test_times_are_those_of_the_api(run: Run, task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(created_at=datetime(2026, 6, 15, 9, 30, 0, 123_456, UTC))
    _, out, _ = run("task_status", task.pk, "--json")
    assert json.loads(out)["created_at"] == "2026-06-15T09:30:00.123456Z"


def test_for_people(run: Run, write: Any, task: Task) -> None:
    code, out, _ = run("add_finding", task.pk, write(RISK))
    assert code == 0
    assert "F-001 added" in out
    make_finding(task, tags=["critical"])
    code, out, _ = run("advance_phase", "CART-17")
    assert "Phase design, open" in out
    assert "critical: F-002" in out
    assert "shop/cart.py" in out


def test_open_decisions_stop_it_unless_forced(run: Run, task: Task) -> None:
    make_finding(task, decision="open")
    code, out, err = run("compress_phase", task.pk, "--json")
    assert (code, out) == (2, "")
    assert "F-001. Resolve them, or use --force to hand them on undecided." in err
    code, out, _ = run("advance_phase", task.pk, "--force", "--json")
    assert json.loads(out)["knowledge_pool"]["phase_compressions"]["analysis"]["forced"]


def test_a_decision_is_answered_and_corrected(run: Run, task: Task) -> None:
    make_finding(task, decision="open")
    for answer in ("Whole cents", "Half up"):
        code, out, _ = run("resolve_finding", "CART-17", "F-001", "--answer", answer, "--json")
        assert code == 0
        assert (json.loads(out)["findings"][0]["answer"], json.loads(out)["warnings"]) == (answer, [])
    for wrong, word in (
        (("F-001", "--answer", " "), "--answer"),
        (("F-001",), "--answer"),
        (("X", "--answer", "y"), "FINDING"),
        (("F-009", "--answer", "y"), "F-009"),
    ):
        code, _, err = run("resolve_finding", task.pk, *wrong)
        assert (code, word in err) == (2, True)


def test_late_findings_and_further_versions(run: Run, write: Any, task: Task) -> None:
    make_finding(task)
    run("advance_phase", task.pk)
    code, out, _ = run("add_finding", task.pk, write(RISK), "--phase", "analysis", "--json")
    assert (code, json.loads(out)["findings"][1]["phase"]) == (0, "analysis")
    assert [each["code"] for each in json.loads(out)["warnings"]] == ["not_compressed"]
    assert "Warning: analysis: added, changed or decided since" in run("task_status", task.pk)[1]
    code, out, _ = run("compress_phase", task.pk, "analysis", "--json")
    stored = json.loads(out)["knowledge_pool"]["phase_compressions"]["analysis"]
    assert (code, stored["version"]) == (0, 2)
    code, _, err = run("add_finding", task.pk, write({**RISK, "phase": "design"}), "--phase", "analysis")
    assert (code, "--phase" in err) == (2, True)
    assert run("compress_phase", task.pk, "implementation")[0] == 2


def test_a_finding_is_tagged_and_linked_afterwards(run: Run, task: Task) -> None:
    make_finding(task)
    make_finding(task)
    options = ("--tags", "critical,money", "--depends-on", "F-001")
    assert run("change_finding", "CART-17", "f-2", *options)[0] == 0
    finding = Finding.objects.get(number=2)
    assert (finding.tags, finding.dependencies) == (["critical", "money"], ["F-001"])
    assert run("change_finding", "CART-17", "F-002", "--tags", "")[0] == 0
    finding.refresh_from_db()
    assert (finding.tags, finding.dependencies) == ([], ["F-001"])
    for arguments, named in (
        (["F-001", "--depends-on", "F-002"], "circular"),
        (["F-001"], "--tags"),
        (["one", "--tags", "x"], "FINDING"),
        (["F-009", "--tags", "x"], "F-009"),
    ):
        code, _, err = run("change_finding", "CART-17", *arguments)
        assert (code, named in err) == (2, True)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("{", "is not JSON"),
        ('{"category": "risks", "content": {"x": NaN}}', "NaN"),
        ({**RISK, "confidence": 1.2}, "confidence"),
        ({**RISK, "depends_on": ["F-009"]}, "depends_on.0"),
        ({**RISK, "id": "F-002"}, "id"),
        ([], "FILE.json"),
    ],
)
def test_a_bad_finding_is_named_and_nothing_is_written(
    run: Run, write: Any, task: Task, value: object, named: str
) -> None:
    code, out, err = run("add_finding", task.pk, write(value), "--json")
    assert (code, out) == (2, "")
    assert named in err
    assert not Finding.objects.exists()


def test_a_refused_finding_creates_no_task(run: Run, write: Any) -> None:
    file = write({**RISK, "depends_on": ["F-009"]})
    code, _, err = run("add_finding", "T-1", file, "--create", "Round prices")
    assert (code, "F-009" in err) == (2, True)
    assert not Task.objects.exists()


@pytest.mark.parametrize("name", ["999999", "nobody", "9" * 30, "9" * 5_000, "\x00"])
def test_a_task_that_is_not_there(run: Run, task: Task, name: str) -> None:
    for command in ("task_status", "compress_phase", "advance_phase"):
        code, _, err = run(command, name)
        assert code == 2
        assert err.startswith("TASK: ")
        # Only add_finding has the option.
        assert "--create" not in err or "add_finding --create" in err


def test_a_number_may_be_an_external_id(run: Run, task: Task) -> None:
    other = make_task(task.team, external_id="12")
    assert json.loads(run("task_status", "12", "--json")[1])["id"] == other.pk
