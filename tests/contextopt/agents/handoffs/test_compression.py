"""A phase hands on whole findings, a brief, and versions of it."""

import pytest
from django.db import DatabaseError, transaction

from contextopt.agents.handoffs.compression import handed_findings, make_compression
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.errors import Conflict
from contextopt.models import (
    Assembly,
    AssemblyPayload,
    HandoffPhase,
    HandoffSettings,
    PhaseCompression,
    Task,
)
from tests.contextopt.agents.handoffs.journeys import bundle_of, compress, status
from tests.factories import make_advance, make_finding


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
        # Each finding counts in full once; each text counts with the tokens that it has.
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

    def test_warnings_have_codes(self, task: Task) -> None:
        HandoffSettings.objects.create(
            team=task.team, phase="analysis", max_critical=0, critical_tokens=1, findings_tokens=1
        )
        make_finding(task, tags=["critical"], decision="open")
        warnings = compress(task, force=True).to_json()["warnings"]
        codes = ["many_critical", "critical_over_budget", "findings_over_budget", "open_decisions"]
        assert [warning["code"] for warning in warnings] == codes
        assert all(warning["remedy"] is None and warning["message"] for warning in warnings)


def test_make_compression_is_only_for_findings_there_are(task: Task) -> None:
    with pytest.raises(Conflict):
        make_compression(task, HandoffPhase.ANALYSIS, is_forced=True, actor="test")
