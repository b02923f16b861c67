"""A phase hands on whole findings, a brief, and versions of it."""

import pytest
from django.db import DatabaseError, transaction

from contextopt.agents.handoffs.compression import handed_findings, make_compression
from contextopt.agents.handoffs.models import HandoffSettings, PhaseCompression
from contextopt.agents.handoffs.status import compression_json
from contextopt.agents.models import HandoffPhase, Task
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.errors import Conflict
from tests.contextopt.agents.handoffs.journeys import bundle_of, compress, status
from tests.contextopt.agents.timeline.journeys import read_account
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
        bundle_of(task)
        make_finding(task, phase="analysis")
        second = compress(task, phase="analysis")
        rows = Assembly.objects.order_by("id")
        assert len(rows) == 2
        # Each finding counts in full once; each text that was read counts with the tokens that it has.
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
        warnings = compression_json(compress(task, force=True))["warnings"]
        codes = ["many_critical", "critical_over_budget", "findings_over_budget", "open_decisions"]
        assert [warning["code"] for warning in warnings] == codes
        assert all(warning["remedy"] is None and warning["message"] for warning in warnings)


def row_of(compression: PhaseCompression) -> Assembly:
    return Assembly.objects.select_related("payload").get(handoff=compression)


class TestTrueSavings:
    """A hand-off saves only what the next phase receives less of."""

    def test_a_version_that_nobody_read_is_replaced(self, task: Task) -> None:
        make_finding(task)
        first = compress(task)
        make_finding(task, content={"risk": "Late rounding loses cents."})
        second = compress(task)
        assert (row_of(first).is_sent, row_of(first).not_counted) == (False, "no phase received it")
        # The second is compared with all findings, as nobody has seen the first.
        assert row_of(second).tokens_before == second.tokens_before
        account = read_account(task)
        assert (account.sent_tokens, account.full_tokens) == (second.tokens_after, second.tokens_before)
        assert status(task)["saved_tokens"] == account.saved_tokens == row_of(second).tokens_saved
        (pool,) = status(task)["knowledge_pool"]["phase_compressions"].values()
        assert pool["saved_tokens"] == account.saved_tokens

    def test_a_version_that_was_read_stays(self, task: Task) -> None:
        make_finding(task)
        make_advance(task)
        bundle_of(task)
        make_finding(task, phase="analysis", content={"risk": "Late rounding loses cents."})
        bundle_of(task)
        first, second = PhaseCompression.objects.order_by("version")
        assert row_of(first).is_sent
        assert row_of(second).tokens_before == task.findings.get(number=2).tokens
        account = read_account(task)
        assert account.sent_tokens == first.tokens_after + second.tokens_after
        assert status(task)["tokens"]["analysis"]["saved_tokens"] == account.saved_tokens

    def test_nobody_receives_what_the_last_phase_hands_on(self, task: Task) -> None:
        for _ in range(2):
            make_finding(task)
            make_advance(task)
        before = read_account(task)
        make_finding(task, category="changes", content={"description": "Prices are decimals now. " * 40})
        last = compress(task)
        assert (last.saved_tokens, row_of(last).not_counted) == (None, "no phase received it")
        after = read_account(task)
        assert after.assemblies == before.assemblies + 1
        assert (after.sent_tokens, after.saved_tokens) == (before.sent_tokens, before.saved_tokens)
        assert verify_assembly(row_of(last).payload) == []

    def test_an_empty_hand_off_saves_nothing(self, task: Task) -> None:
        make_finding(task, confidence=0.1)
        compression = compress(task)
        assert (compression.brief, compression.critical) == ("", [])
        assert (row_of(compression).tokens_saved, row_of(compression).not_counted) == (
            None,
            "nothing was sent",
        )
        assert read_account(task).saved_tokens is None

    def test_an_empty_brief_for_lack_of_room_saves_nothing(self, task: Task) -> None:
        HandoffSettings.objects.create(team=task.team, phase="analysis", brief_tokens=20)
        make_finding(task, tags=["critical"], content={"risk": "Rounding loses cents."})
        long = "The export of orders locks the table for minutes because every row is rewritten at once."
        make_finding(task, content={"description": long})
        compression = compress(task)
        assert compression.brief == ""
        assert (row_of(compression).tokens_saved, compression.saved_tokens) == (0, 0)

    def test_findings_that_are_lost_are_not_saved(self, task: Task) -> None:
        HandoffSettings.objects.create(
            team=task.team, phase="analysis", brief_tokens=30, speculation_below=0.7
        )
        long = "The export of orders locks the table for minutes because every row is rewritten at once."
        make_finding(task, category="risks", content={"risk": "Rounding loses cents."})
        for number in range(6):
            make_finding(task, content={"description": f"{long} It is case {number} of many."})
        make_finding(task, confidence=0.5, content={"description": f"Perhaps. {long}"})
        make_finding(task, confidence=0.2, content={"description": f"A guess. {long}"})
        make_finding(task, category="risks", content={"risk": "Rounding loses cents."})
        compression = compress(task)
        row = row_of(compression)
        lost = row.payload.ledger["lost"]
        assert compression.in_brief == [1]
        assert lost == [f"F-00{number}" for number in range(2, 9)]
        # The guess and the repetition are no loss, so leaving them out saves their tokens.
        for number in range(1, 11):
            assert (f"F-{number:03d} [" in row.payload.baseline_text) == (number in {1, 9, 10})
        assert row.tokens_saved == row.tokens_before - compression.tokens_after < compression.tokens_before
        assert verify_assembly(row.payload) == []


def test_make_compression_is_only_for_findings_there_are(task: Task) -> None:
    with pytest.raises(Conflict):
        make_compression(task, HandoffPhase.ANALYSIS, is_forced=True, actor="test")
