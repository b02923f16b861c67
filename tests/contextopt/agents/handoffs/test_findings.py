"""Findings, hand-offs and what the next phase begins with."""

from typing import Any

import pytest
from django.db import DatabaseError, transaction
from pydantic import ValidationError

from contextopt.agents.handoffs.bundles import Bundle, build_bundle
from contextopt.agents.handoffs.compression import handed_findings, make_compression
from contextopt.agents.handoffs.findings import change_finding, compress_phase, resolve_decision
from contextopt.agents.handoffs.inputs import BundleIn, CompressIn, FindingIn, FindingPatch, ResolutionIn
from contextopt.agents.handoffs.status import task_status
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.text.marks import mark
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.errors import Conflict, InvalidInput, NotFound, OpenDecisions
from contextopt.models import (
    Assembly,
    AssemblyPayload,
    AuditEvent,
    Finding,
    HandoffPhase,
    HandoffSettings,
    PhaseCompression,
    Task,
    TaskState,
    Team,
)
from tests.concurrency import at_once
from tests.contextopt.engine.payloads import PAYLOADS
from tests.factories import make_advance, make_finding, make_task, make_team


@pytest.fixture
def task(team: Team) -> Task:
    return make_task(team)


def compress(task: Task, **options: Any) -> PhaseCompression:
    data = CompressIn(**options)
    return compress_phase(team_id=task.team_id, task_id=task.pk, data=data, actor="test")


def resolve(task: Task, number: int, resolution: str = "") -> Finding:
    data = ResolutionIn(resolution=resolution)
    return resolve_decision(
        team_id=task.team_id, task_id=task.pk, number=number, data=data, actor="user:olga"
    )


def bundle_of(task: Task, **options: Any) -> Bundle:
    return build_bundle(team_id=task.team_id, task_id=task.pk, data=BundleIn(**options))


def change(task: Task, number: int, **options: Any) -> Finding:
    data = FindingPatch(**options)
    return change_finding(team_id=task.team_id, task_id=task.pk, number=number, data=data, actor="user:olga")


def status(task: Task) -> dict[str, Any]:
    return task_status(team_id=task.team_id, task_id=task.pk).to_json()


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

    @pytest.mark.parametrize(
        ("overrides", "field"),
        [
            ({"confidence": 1.2}, "confidence"),
            ({"confidence": -0.1}, "confidence"),
            ({"confidence": float("nan")}, "confidence"),
            ({"content": {}}, "content"),
            ({"content": {"x": "y" * 2_000_000}}, "content"),
            ({"content": {"x": float("nan")}}, "content"),
            ({"content": {"x": 2**70}}, "content"),
            ({"content": {"x": "\x00"}}, "content"),
            ({"content": {"x": "\ud800"}}, "content"),
            ({"category": " "}, "category"),
            ({"category": "a\nb"}, "category"),
            ({"category": "c" * 65}, "category"),
            ({"tags": ["a\nb"]}, "tags"),
            ({"tags": ["t" * 65]}, "tags"),
            ({"tags": ["t"] * 51}, "tags"),
            ({"depends_on": ["7"]}, "depends_on"),
            ({"depends_on": ["F-99999999999"]}, "depends_on"),
            ({"decision": "maybe"}, "decision"),
            ({"unknown": 1}, "unknown"),
        ],
    )
    def test_bad_input_names_its_field(self, overrides: dict[str, Any], field: str) -> None:
        with pytest.raises(ValidationError) as refused:
            FindingIn(**{"category": "risks", "content": {"x": "y"}, **overrides})
        assert {error["loc"][0] for error in refused.value.errors()} == {field}

    def test_content_that_is_too_deep_is_refused(self) -> None:
        content: dict[str, Any] = {}
        for _ in range(30):
            content = {"x": content}
        with pytest.raises(ValidationError, match="nested"):
            FindingIn(category="risks", content=content)

    def test_never_change(self, task: Task) -> None:
        finding = make_finding(task)
        for change in ({"content": {"x": 1}}, {"number": 9}, {"confidence": 0.1}):
            with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
                Finding.objects.filter(pk=finding.pk).update(**change)

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

    def test_are_resolved_once(self, task: Task) -> None:
        make_finding(task, decision="open")
        finding = resolve(task, 1, "Whole cents.")
        assert (finding.decision, finding.resolution) == ("resolved", "Whole cents.")
        assert finding.resolved_by == "user:olga"
        assert finding.resolved_at is not None
        with pytest.raises(Conflict, match="already"):
            resolve(task, 1)
        assert compress(task).is_forced is False

    def test_what_is_none_cannot_be_resolved(self, task: Task) -> None:
        make_finding(task)
        with pytest.raises(Conflict, match="no decision"):
            resolve(task, 1)
        with pytest.raises(NotFound):
            resolve(task, 2)

    def test_forcing_is_kept(self, task: Task) -> None:
        make_finding(task, decision="open")
        compression = compress(task, force=True)
        assert (compression.is_forced, compression.undecided) == (True, [1])
        # Force where nothing is open changes nothing.
        assert make_advance(task, force=True).phase == "design"


class TestCompression:
    def test_critical_findings_are_whole_and_the_rest_is_a_brief(self, task: Task) -> None:
        for _ in range(4):
            make_finding(task)
        make_finding(task, tags=["critical"], depends_on=["F-002"])
        make_finding(task, confidence=0.2)
        compression = compress(task)
        assert compression.critical == [2, 5]
        assert compression.extract_tokens == get_tokenizer("cl100k_base").count(compression.extract) <= 450
        accounted = {*compression.critical, *compression.in_brief}
        accounted |= {int(item["id"][2:]) for item in compression.discarded}
        assert accounted == {1, 2, 3, 4, 5, 6}
        assert {"id": "F-006", "reason": "speculation"} in compression.discarded
        assert compression.settings["brief_tokens"] == 450

    def test_unchanged_findings_give_the_same_one_again(self, task: Task) -> None:
        make_finding(task)
        first = compress(task)
        assert compress(task).pk == first.pk
        assert Assembly.objects.count() == 1
        make_finding(task)
        second = compress(task)
        assert second.pk != first.pk
        assert second.version == 2
        make_advance(task)
        assert [each.pk for each in PhaseCompression.objects.order_by("version")] == [first.pk, second.pk]

    def test_nothing_is_no_hand_off(self, task: Task) -> None:
        with pytest.raises(Conflict, match="no findings"):
            compress(task)
        with pytest.raises(Conflict, match="no findings"):
            make_advance(task)

    def test_never_changes(self, task: Task) -> None:
        make_finding(task)
        compression = compress(task)
        with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
            PhaseCompression.objects.filter(pk=compression.pk).update(extract="other")

    def test_a_team_may_set_its_own_sizes(self, task: Task) -> None:
        HandoffSettings.objects.create(
            team=task.team, phase="analysis", brief_tokens=20, key_categories=["risks"], critical_above=0.7
        )
        make_finding(task)
        compression = compress(task)
        assert compression.critical == [1]
        assert compression.settings["brief_tokens"] == 20

    def test_a_critical_finding_brings_what_it_needs_of_earlier_phases(self, task: Task) -> None:
        make_finding(task)
        make_finding(task, depends_on=["F-001"])
        make_finding(task)
        make_advance(task)
        make_finding(task, category="components", depends_on=["F-002"], implementation_ready=True)
        make_finding(task, depends_on=["F-003"])
        compression = compress(task)
        assert compression.critical == [1, 2, 4]
        assert compression.findings_count == 2
        make_advance(task)
        assert [finding.id for finding in bundle_of(task).critical] == ["F-001", "F-002", "F-004"]

    def test_the_log_is_computed_again(self, task: Task) -> None:
        for number in range(5):
            make_finding(task, tags=["critical"] if number == 2 else [])
        compression = compress(task)
        payload = AssemblyPayload.objects.select_related("assembly").get()
        row = payload.assembly
        assert (row.kind, row.phase) == ("handoff", "analysis")
        assert (row.tokens_before, row.tokens_after) == (compression.tokens_before, compression.tokens_after)
        assert compression.assembly_id == row.pk
        assert verify_assembly(payload) == []
        payload.text += " and more"
        assert {found.figure for found in verify_assembly(payload)} >= {"tokens_after", "sha256"}


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

    def test_status_has_it_all(self, task: Task) -> None:
        make_finding(task)
        make_finding(task, decision="open")
        make_advance(task, force=True)
        found = status(task)
        pool = found["knowledge_pool"]["phase_compressions"]
        assert set(pool) == {"analysis"}
        assert {"brief", "critical_findings", "token_count"} <= set(pool["analysis"])
        assert pool["analysis"]["token_count"] == pool["analysis"]["tokens_after"]
        assert found["phase"] == "design"
        assert found["tokens"]["design"]["input_budget"] == 36_800
        assert found["tokens"]["implementation"]["input_budget"] == 37_600
        assert (
            found["tokens"]["analysis"] | {"input_budget": 35_000, "output_budget": 7_200}
            == found["tokens"]["analysis"]
        )
        warning = next(each for each in found["warnings"] if each["code"] == "open_decisions")
        assert warning == {
            "code": "open_decisions", "message": "analysis: decisions are open: F-002", "remedy": None,
        }  # fmt: skip

    def test_status_asks_as_often_whatever_there_is(self, task: Task, django_assert_num_queries) -> None:
        for wanted in (2, 20):
            while task.findings.count() < wanted:
                make_finding(task)
            # task, findings, compressions, settings
            with django_assert_num_queries(4):
                status(task)


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
        # What nobody in the design could read any more does not count as read.
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


class TestVersions:
    def test_a_passed_phase_is_compressed_again_and_all_versions_stay(self, task: Task) -> None:
        make_finding(task)
        first = compress(task)
        make_advance(task)
        assert compress(task, phase="analysis").pk == first.pk
        make_finding(task, phase="analysis")
        second = compress(task, phase="analysis")
        assert (first.version, second.version, second.findings_count) == (1, 2, 2)
        assert status(task)["knowledge_pool"]["phase_compressions"]["analysis"]["version"] == 2
        assert status(task)["tokens"]["analysis"]["tokens_before"] == second.tokens_before
        assert PhaseCompression.objects.get(pk=first.pk).extract == first.extract
        assert Task.objects.get().phase == "design"

    def test_figures_are_not_doubled(self, task: Task) -> None:
        for _ in range(3):
            make_finding(task)
        first = compress(task)
        make_advance(task)
        make_finding(task, phase="analysis")
        second = compress(task, phase="analysis")
        rows = Assembly.objects.order_by("id")
        assert len(rows) == 2
        # Each finding counts in full once; each text that was made, for what it weighs.
        late = task.findings.get(number=4)
        assert [row.tokens_before for row in rows] == [first.tokens_before, late.tokens]
        assert [row.tokens_after for row in rows] == [first.tokens_after, second.tokens_after]
        assert second.tokens_before == first.tokens_before + late.tokens
        for payload in AssemblyPayload.objects.select_related("assembly"):
            assert verify_assembly(payload) == []

    def test_a_version_is_of_the_findings_it_saw(self, task: Task) -> None:
        make_finding(task)
        first = compress(task)
        make_finding(task)
        assert [finding.id for finding in handed_findings(first)] == ["F-001"]

    def test_warnings_of_before_are_notes(self, task: Task) -> None:
        make_finding(task)
        compression = compress(task)
        compression.warnings = ["the findings take 9 tokens"]
        (warning,) = compression.to_json()["warnings"]
        assert warning == {"code": "note", "message": "the findings take 9 tokens", "remedy": None}

    def test_warnings_have_codes(self, task: Task) -> None:
        HandoffSettings.objects.create(
            team=task.team, phase="analysis", max_critical=0, critical_tokens=1, findings_tokens=1
        )
        make_finding(task, tags=["critical"], decision="open")
        warnings = compress(task, force=True).to_json()["warnings"]
        codes = ["many_critical", "critical_over_budget", "findings_over_budget", "open_decisions"]
        assert [warning["code"] for warning in warnings] == codes
        assert all(warning["remedy"] is None and warning["message"] for warning in warnings)


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
            (["F-003"], "circle"),
            (["F-002"], "circle"),
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


def test_make_compression_is_only_for_findings_there_are(task: Task) -> None:
    with pytest.raises(Conflict):
        make_compression(task, HandoffPhase.ANALYSIS, is_forced=True, actor="test")
