"""Findings: added, decided and changed, and the conditions for the next phase."""

from typing import Any

import pytest
from django.db import DatabaseError, transaction

from contextopt.agents.handoffs.models import Finding, PhaseCompression, Resolution
from contextopt.agents.models import Task, TaskState
from contextopt.assemblies.models import Assembly
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.errors import Conflict, InvalidInput, NotFound, OpenDecisions
from contextopt.people.models import AuditEvent, Team
from tests.concurrency import at_once
from tests.contextopt.agents.handoffs.journeys import bundle_of, change, compress, resolve, status
from tests.factories import make_advance, make_finding, make_task, make_team


class TestFindings:
    def test_are_numbered_without_gaps(self, task: Task) -> None:
        assert [make_finding(task).key for _ in range(3)] == ["F-001", "F-002", "F-003"]
        assert make_finding(make_task(task.team)).key == "F-001"

    def test_keep_what_was_said(self, task: Task) -> None:
        make_finding(task)
        finding = make_finding(
            task, tags=["critical", "critical"], confidence=1, depends_on=["f-1"], decision="open",
            implementation_ready=True, content={"table": "cart", "columns": ["price"]},
        )  # fmt: skip
        stored = Finding.objects.get(pk=finding.pk)
        assert (stored.phase, stored.tags, stored.dependencies) == ("analysis", ["critical"], ["F-001"])
        assert (stored.decision, stored.implementation_ready, stored.confidence) == ("open", True, 1.0)
        assert stored.content == {"table": "cart", "columns": ["price"]}
        assert stored.tokens > 10
        assert stored.created_by == "test"

    def test_what_was_counted_is_what_is_read_again(self, task: Task) -> None:
        content = {"severity": "high", "b": {"zz": 1, "é": 2, "y": [{"long": 1, "s": 2}]}, "Aa": 1.5}
        finding = make_finding(task, content=content)
        stored = Finding.objects.get(pk=finding.pk)
        assert list(stored.content) == list(finding.content)
        assert str(stored.content) == str(finding.content)
        make_finding(task, tags=["critical"], content=content)
        compression = compress(task)
        assert compression.tokens_before == task.findings.measure()

    @pytest.mark.parametrize(
        ("overrides", "field"),
        [
            ({"depends_on": ["F-009"]}, "depends_on.0"),
            ({"depends_on": ["F-001", "F-002"]}, "depends_on.1"),
            ({"id": "F-001"}, "id"),
            ({"id": "F-005"}, "id"),
            ({"phase": "design"}, "phase"),
        ],
    )
    def test_what_does_not_fit_the_task_is_refused(
        self, task: Task, overrides: dict[str, Any], field: str
    ) -> None:
        make_finding(task)
        with pytest.raises(InvalidInput) as refused:
            make_finding(task, **overrides)
        assert [problem.field for problem in refused.value.problems] == [field]
        assert task.findings.count() == 1

    def test_a_finding_that_depends_on_itself_is_told_so(self, task: Task) -> None:
        with pytest.raises(InvalidInput, match="itself"):
            make_finding(task, id="F-001", depends_on=["F-001"])

    def test_never_change(self, task: Task) -> None:
        finding = make_finding(task)
        for rewritten in ({"content": {"x": 1}}, {"number": 9}, {"confidence": 0.1}):
            with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
                Finding.objects.filter(pk=finding.pk).update(**rewritten)

    def test_a_closed_task_takes_none(self, task: Task) -> None:
        Task.objects.filter(pk=task.pk).update(state=TaskState.COMPLETED)
        with pytest.raises(Conflict, match="completed"):
            make_finding(task)

    def test_of_another_team_are_not_found(self, task: Task, other_team: Team) -> None:
        task.team_id = other_team.pk
        with pytest.raises(NotFound):
            make_finding(task)


class TestDecisions:
    def test_open_ones_refuse_and_are_named(self, task: Task) -> None:
        make_finding(task)
        make_finding(task, decision="open")
        with pytest.raises(OpenDecisions, match="F-002") as refused:
            compress(task)
        assert refused.value.findings == ["F-002"]
        with pytest.raises(OpenDecisions):
            make_advance(task)
        assert not PhaseCompression.objects.exists()
        assert Task.objects.get().phase == "analysis"

    def test_are_resolved_and_corrected(self, task: Task) -> None:
        asked = make_finding(task, decision="open")
        finding = resolve(task, 1, "Whole cents.")
        assert (finding.decision, finding.resolution) == ("resolved", "Whole cents.")
        assert finding.resolved_by == "user:olga"
        assert finding.resolved_at is not None
        assert finding.tokens > asked.tokens
        assert compress(task).is_forced is False
        resolve(task, 1, "Half up.")
        resolve(task, 1, "Half up.")
        assert list(Resolution.objects.order_by("number").values_list("number", "answer")) == [
            (1, "Whole cents."), (2, "Half up."),
        ]  # fmt: skip
        assert Finding.objects.get().resolution == "Half up."
        changes = AuditEvent.objects.filter(action__startswith="finding.").order_by("id")
        assert list(changes.values_list("action", "before", "after")) == [
            ("finding.resolved", {}, {"answer": "Whole cents."}),
            ("finding.corrected", {"answer": "Whole cents."}, {"answer": "Half up."}),
        ]
        with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
            Resolution.objects.update(answer="x")

    def test_are_handed_on_with_the_newest_answer(self, task: Task) -> None:
        content = {"question": "How are prices rounded?"}
        make_finding(task, decision="open", content=content, tags=["critical"])
        make_finding(task, decision="open", content=content | {"where": "in the cart"})
        for number in (1, 2):
            resolve(task, number, "Whole cents.")
        make_advance(task)
        bundle = bundle_of(task)
        assert bundle.critical[0].answer == "Whole cents."
        assert 'answer: "Whole cents."\n' in bundle.handed_text
        assert "decided: Whole cents." in bundle.to_json()["brief"]
        for number in (1, 2):
            resolve(task, number, "Half up.")
        bundle = bundle_of(task)
        assert (bundle.compression.version, bundle.handed_text.count("Half up.")) == (2, 2)
        assert "Whole cents." not in bundle.text

    def test_what_is_none_cannot_be_resolved(self, task: Task) -> None:
        make_finding(task)
        with pytest.raises(Conflict, match="is not a decision"):
            resolve(task, 1)
        with pytest.raises(NotFound):
            resolve(task, 2)

    def test_forcing_is_kept(self, task: Task) -> None:
        make_finding(task, decision="open")
        compression = compress(task, force=True)
        assert (compression.is_forced, compression.undecided) == (True, [1])
        # Force has no effect when no finding is open.
        assert make_advance(task, force=True).phase == "design"


class TestPhases:
    def test_go_in_order_to_the_last(self, task: Task) -> None:
        with pytest.raises(Conflict, match="next phase is design"):
            make_advance(task, to="implementation")
        for phase in ("design", "implementation"):
            make_finding(task)
            assert make_advance(task, to=phase).phase == phase
        make_finding(task, category="changes")
        with pytest.raises(Conflict, match="last phase"):
            make_advance(task)
        assert compress(task).phase == "implementation"
        assert [finding["phase"] for finding in status(task)["findings"]] == [
            "analysis", "design", "implementation"
        ]  # fmt: skip

    def test_are_not_undone(self, task: Task) -> None:
        make_finding(task)
        make_advance(task)
        with pytest.raises(Conflict, match="next phase is implementation"):
            make_advance(task, to="design")
        with pytest.raises(Conflict, match="cannot be compressed"):
            compress(task, phase="implementation")


class TestChanges:
    def test_a_finding_is_tagged_and_linked_afterwards(self, task: Task) -> None:
        for _ in range(2):
            make_finding(task)
        make_advance(task)
        before = bundle_of(task)
        assert before.critical == ()
        old = task.findings.get(number=2)
        changed = change(task, 2, tags=["critical", "critical"], depends_on=["F-001"])
        assert (changed.tags, changed.dependencies) == (["critical"], ["F-001"])
        assert (changed.content, changed.relabelled_by) == (old.content, "user:olga")
        assert changed.tokens > old.tokens
        bundle = bundle_of(task)
        assert [finding.id for finding in bundle.critical] == ["F-001", "F-002"]
        assert get_tokenizer("cl100k_base").count(bundle.handed_text) == bundle.compression.tokens_after
        event = AuditEvent.objects.get()
        assert (event.action, event.actor) == ("finding.changed", "user:olga")
        assert event.before == {"tags": [], "depends_on": []}
        assert event.after == {"tags": ["critical"], "depends_on": ["F-001"]}

    def test_what_is_not_given_stays_and_the_same_again_changes_nothing(self, task: Task) -> None:
        make_finding(task)
        make_finding(task, tags=["money"], depends_on=["F-001"])
        assert change(task, 2, tags=["tax"]).dependencies == ["F-001"]
        assert change(task, 2, tags=["tax"]).tags == ["tax"]
        assert change(task, 2, depends_on=[]).tags == ["tax"]
        assert AuditEvent.objects.count() == 2

    def test_an_earlier_phases_finding_tagged_afterwards_reaches_across(self, task: Task) -> None:
        for _ in range(2):
            make_finding(task)
            make_advance(task)
        assert bundle_of(task).critical == ()
        change(task, 1, tags=["critical"])
        assert [finding.id for finding in bundle_of(task).critical] == ["F-001"]

    @pytest.mark.parametrize(
        ("depends_on", "message"),
        [
            (["F-001"], "itself"),
            (["F-003"], "circular"),
            (["F-002"], "circular"),
            (["F-009"], "no finding F-009"),
        ],
    )
    def test_circles_and_unknown_findings_are_refused(
        self, task: Task, depends_on: list[str], message: str
    ) -> None:
        make_finding(task)
        make_finding(task, depends_on=["F-001"])
        make_finding(task, depends_on=["F-002"])
        with pytest.raises(InvalidInput, match=message) as refused:
            change(task, 1, depends_on=depends_on)
        assert refused.value.problems[0].field == "depends_on.0"
        assert task.findings.get(number=1).depends_on == []

    def test_closed_tasks_and_other_teams(self, task: Task, other_team: Team) -> None:
        make_finding(task)
        Task.objects.filter(pk=task.pk).update(state=TaskState.COMPLETED)
        with pytest.raises(Conflict, match="completed"):
            change(task, 1, tags=["critical"])
        task.team_id = other_team.pk
        with pytest.raises(NotFound):
            change(task, 1, tags=["critical"])

    def test_a_link_to_a_later_phase_harms_no_compression(self, task: Task) -> None:
        make_finding(task, tags=["critical"])
        make_advance(task)
        make_finding(task)
        change(task, 1, depends_on=["F-002"])
        assert compress(task, phase="analysis").critical == [1]


@pytest.mark.django_db(transaction=True)
class TestAtOnce:
    def test_numbers_have_no_gaps(self) -> None:
        task = make_task(make_team())
        found = at_once(*[lambda: make_finding(task) for _ in range(8)])
        assert sorted(finding.number for finding in found) == list(range(1, 9))

    def test_a_refused_finding_leaves_no_gap(self) -> None:
        task = make_task(make_team())

        def refused() -> str:
            with pytest.raises(InvalidInput):
                make_finding(task, depends_on=["F-999"])
            return "refused"

        at_once(lambda: make_finding(task), refused, lambda: make_finding(task), refused)
        assert list(task.findings.in_order().values_list("number", flat=True)) == [1, 2]

    def test_one_of_two_advances_at_once_is_refused(self) -> None:
        task = make_task(make_team())
        make_finding(task)

        def advance() -> str:
            try:
                return make_advance(task, to="design").phase
            except Conflict:
                return "refused"

        assert sorted(at_once(advance, advance)) == ["design", "refused"]
        assert PhaseCompression.objects.count() == Assembly.objects.count() == 1

    def test_compressing_twice_at_once_is_one(self) -> None:
        task = make_task(make_team())
        make_finding(task)
        first, second = at_once(lambda: compress(task), lambda: compress(task))
        assert first.pk == second.pk
