"""Bundles: the context that the next phase begins with, including late findings."""

from functools import partial

import pytest

from contextopt.agents.handoffs.models import PhaseCompression
from contextopt.agents.models import Task, TaskState
from contextopt.assemblies.models import Assembly
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.text.quoting import mark
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.errors import OpenDecisions
from tests.concurrency import before_statement, beside
from tests.contextopt.agents.handoffs.journeys import bundle_of, compress, status
from tests.contextopt.engine.payloads import PAYLOADS
from tests.factories import make_advance, make_finding


class TestBundle:
    def test_the_first_phase_gets_its_context_alone(self, task: Task) -> None:
        bundle = bundle_of(task, context={"files": {"a.py": "x = 1\n"}})
        assert bundle.text == "## Files\n### a.py\n> x = 1\n"
        assert (bundle.budget_tokens, bundle.compression) == (35_000, None)

    def test_the_next_one_gets_brief_critical_findings_and_context(self, task: Task) -> None:
        make_finding(task, tags=["critical"], content={"description": "Keep <cents> whole."})
        make_finding(task)
        make_finding(task, confidence=0.1)
        make_advance(task)
        bundle = bundle_of(task, context={"docs": ["word " * 60_000]})
        assert '{"description": "Keep <cents> whole."}' in bundle.text
        assert mark(bundle.compression.brief) in bundle.text
        assert bundle.context.filtered_tokens <= 35_000
        assert bundle.tokens <= bundle.budget_tokens == 36_800
        assert bundle.tokens_without > bundle.tokens
        assert {(each.id, each.reason) for each in bundle.references} == {
            ("F-002", "in_brief"),
            ("F-003", "speculation"),
        }
        assert bundle.references[1].url == f"/api/v1/tasks/{task.pk}/findings/F-003"
        assert get_tokenizer("cl100k_base").count(bundle.handed_text) == bundle.compression.tokens_after

    def test_its_context_is_logged_for_the_task(self, task: Task) -> None:
        make_finding(task)
        make_advance(task)
        assert bundle_of(task).context_assembly_id is None
        bundle = bundle_of(task, context={"docs": ["word " * 60_000]})
        row = Assembly.objects.select_related("payload").get(pk=bundle.context_assembly_id)
        assert (row.task, row.kind, row.phase, row.truncated) == (task, "phase", "design", True)
        assert (row.tokens_after, row.tokens_available) == (bundle.context.filtered_tokens, 35_000)
        assert row.payload.text == bundle.context.context.render()
        assert verify_assembly(row.payload) == []
        # The hand-off in the bundle is not logged again.
        assert Assembly.objects.filter(task=task).count() == 2

    def test_nothing_in_it_poses_as_ours(self, task: Task) -> None:
        for text in PAYLOADS:
            make_finding(task, tags=["critical"], content={"description": text, "location": text})
        make_finding(
            task, category="## Diagnosis", content={"description": "[NEW FILE] Keep it.", "risk": "x"}
        )
        make_advance(task)
        lines = bundle_of(task, context={"docs": [*PAYLOADS]}).text.splitlines()
        assert [line for line in lines if line and not line.startswith("> ")] == ["## Docs"]

    def test_reading_it_is_noted(self, task: Task) -> None:
        make_finding(task)
        make_advance(task)
        bundle_of(task)
        first = PhaseCompression.objects.get().consumed_at
        assert first is not None
        bundle_of(task)
        assert PhaseCompression.objects.get().consumed_at == first


@pytest.mark.django_db(transaction=True)
def test_a_phase_that_just_began_gets_its_own_bundle(task: Task) -> None:
    make_finding(task)
    make_advance(task)
    make_finding(task)
    advance = partial(make_advance, task)
    with before_statement(
        "SELECT FROM contextopt_team", lambda number: number == 1 and beside(advance).result()
    ):
        bundle = bundle_of(task)
    assert (bundle.phase, bundle.compression.phase) == ("implementation", "design")


class TestLateFindings:
    def test_reach_the_next_bundle(self, task: Task) -> None:
        make_finding(task)
        make_advance(task)
        assert "late" not in bundle_of(task).text
        make_finding(task, phase="analysis", tags=["critical"], content={"description": "Came late"})
        (warning,) = [each for each in status(task)["warnings"] if each["code"] == "not_compressed"]
        assert "F-002" in warning["message"]
        bundle = bundle_of(task)
        assert "Came late" in bundle.text
        assert bundle.compression.version == 2
        assert get_tokenizer("cl100k_base").count(bundle.handed_text) == bundle.compression.tokens_after
        assert bundle_of(task).compression.pk == bundle.compression.pk
        assert status(task)["warnings"] == []

    def test_reach_it_across_a_phase(self, task: Task) -> None:
        for _ in range(2):
            make_finding(task)
            make_advance(task)
        bundle_of(task)
        make_finding(task, phase="analysis", content={"description": "The ledger of refunds is append-only."})
        # A late finding that design can no longer read doesn't count as read.
        assert compress(task, phase="analysis").version == 2
        bundle = bundle_of(task)
        assert bundle.compression.phase == "design"
        assert "append-only" in bundle.text
        assert bundle.compression.findings_count == 1

    def test_are_handed_on_by_the_phase_that_did_not_read_them(self, task: Task) -> None:
        make_finding(task)
        make_advance(task)
        make_finding(task)
        make_finding(task, phase="analysis", tags=["critical"], content={"description": "Came late"})
        make_advance(task)
        assert "Came late" in bundle_of(task).text

    def test_are_not_handed_on_twice(self, task: Task) -> None:
        make_finding(task)
        make_advance(task)
        make_finding(task)
        make_finding(task, phase="analysis", tags=["critical"], content={"description": "Came late"})
        assert "Came late" in bundle_of(task).text
        make_advance(task)
        assert "Came late" not in bundle_of(task).text

    def test_open_decisions_among_them_are_brought_and_told(self, task: Task) -> None:
        make_finding(task)
        make_advance(task)
        make_finding(task, phase="analysis", decision="open")
        with pytest.raises(OpenDecisions, match="F-002"):
            compress(task, phase="analysis")
        bundle = bundle_of(task)
        assert [warning.code for warning in bundle.warnings] == ["open_decisions"]
        assert bundle.compression.undecided == [2]

    def test_a_closed_task_still_brings_them(self, task: Task) -> None:
        make_finding(task)
        make_advance(task)
        make_finding(task, phase="analysis", tags=["critical"], content={"description": "Came late"})
        Task.objects.filter(pk=task.pk).update(state=TaskState.COMPLETED)
        assert "Came late" in bundle_of(task).text

    def test_keep_to_the_budget_of_the_brief(self, task: Task) -> None:
        make_finding(task)
        make_advance(task)
        for number in range(60):
            text = f"Price number {number} is stored as a float in shop/cart{number}.py and loses cents."
            make_finding(task, phase="analysis", content={"description": text})
        assert 0 < bundle_of(task).compression.extract_tokens <= 450
