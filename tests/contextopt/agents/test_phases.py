import hashlib

import pytest
import structlog
from django.db import DatabaseError, IntegrityError, transaction

from contextopt.agents.models import PhaseProfile
from contextopt.agents.phases import (
    PHASES_MAX,
    load_active_profile,
    load_active_profiles,
)
from contextopt.agents.phaseversions import activate_version, find_version
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.agents.phases import DEFAULT_PROFILES
from contextopt.engine.text.quoting import unmark
from contextopt.engine.text.tokens import Unmarked, get_tokenizer
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.people.models import Team
from tests.factories import make_agent_context, make_filtering, make_task
from tests.factories import make_profile as publish


def test_a_task_of_six_phases_and_one_with_a_retry(team: Team) -> None:
    for phase in DEFAULT_PROFILES:
        make_filtering(team, phase, counter="heuristic")
    rows = list(Assembly.objects.filter(team=team))
    assert sum(row.tokens_before for row in rows) == 31_050
    assert sum(row.tokens_saved for row in rows) == 20_275
    for phase in ("building", "diagnosis"):
        make_filtering(team, phase, counter="heuristic")
    assert sum(row.tokens_saved for row in Assembly.objects.filter(team=team)) == 26_825


def test_a_filtering_is_an_assembly_with_both_texts(team: Team) -> None:
    result = make_filtering(team, "diagnosis", model="opus")
    row = Assembly.objects.select_related("payload").get(pk=result.id)
    tokenizer = get_tokenizer("cl100k_base")
    assert (row.kind, row.phase, row.model, row.actor) == ("phase", "diagnosis", "opus", "test")
    assert row.tokens_after == tokenizer.count(row.payload.text) == result.certificate.tokens
    assert row.tokens_before == tokenizer.count(row.payload.baseline_text)
    assert row.tokens_available == 5_000
    assert row.payload.text == result.text == result.outcome.context.render()
    assert row.sha256 == result.certificate.sha256
    assert row.payload.entries == []


def test_a_filtering_carries_its_task(team: Team, other_team: Team) -> None:
    task = make_task(team)
    row = Assembly.objects.select_related("payload").get(pk=make_filtering(team, task_id=task.pk).id)
    assert (row.task, row.payload.request["task_id"]) == (task, task.pk)
    assert Assembly.objects.get(pk=make_filtering(team).id).task is None
    for stranger in (make_task(other_team).pk, task.pk + 100):
        with pytest.raises(InvalidInput, match=f"task_id: there is no task {stranger}"):
            make_filtering(team, task_id=stranger)
    assert Assembly.objects.count() == 2


def test_the_log_outlives_a_deleted_task(team: Team) -> None:
    task = make_task(team)
    row = Assembly.objects.get(pk=make_filtering(team, task_id=task.pk).id)
    task.delete()
    row.refresh_from_db()
    assert row.task_id is None
    with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
        Assembly.objects.filter(pk=row.pk).update(tokens_after=1)


def test_an_assembly_from_before_lines_were_marked_still_verifies(team: Team) -> None:
    payload = AssemblyPayload.objects.get(pk=make_filtering(team, "diagnosis").id)
    tokenizer, assembly = get_tokenizer("cl100k_base"), payload.assembly
    payload.text, payload.baseline_text = unmark(payload.text), unmark(payload.baseline_text or "")
    assembly.tokens_before = tokenizer.count(payload.baseline_text)
    assembly.tokens_after = tokenizer.count(payload.text)
    assembly.sha256 = hashlib.sha256(payload.text.encode()).hexdigest()
    assert verify_assembly(payload) == []


@pytest.mark.parametrize("counter", ["tokenizer", "heuristic"])
@pytest.mark.parametrize("phase", ["diagnosis", "completing", "dreaming"])
def test_every_stored_figure_is_computed_again(team: Team, phase: str, counter: str) -> None:
    publish(team, "diagnosis", budget_tokens=100)
    result = make_filtering(team, phase, counter=counter)
    payload = AssemblyPayload.objects.get(pk=result.id)
    assert verify_assembly(payload) == []
    payload.text += " forged"
    payload.ledger["chars"]["after"] = [4_000_000]
    assert {"tokens_after", "sha256"} <= {found.figure for found in verify_assembly(payload)}


def test_over_budget_is_trimmed_and_marked(team: Team) -> None:
    publish(team, budget_tokens=700)
    result = make_filtering(team)
    row = Assembly.objects.get(pk=result.id)
    assert row.truncated
    assert row.tokens_after <= row.tokens_available == 700
    assert result.outcome.warnings
    assert result.outcome.context.task == make_agent_context().task


def test_an_unknown_phase_is_unchanged_with_a_warning(team: Team) -> None:
    result = make_filtering(team, "dreaming")
    assert result.outcome.context == make_agent_context()
    assert "dreaming" in result.outcome.warnings[0].message
    assert Assembly.objects.get(pk=result.id).warning_codes == ["unknown_phase"]
    row = Assembly.objects.select_related("payload").get(pk=result.id)
    # Our marks are sent, but they are no part of the full context.
    assert row.payload.baseline_text == Unmarked(make_agent_context()).render()
    assert row.tokens_saved == row.tokens_before - row.tokens_after < 0
    assert row.tokens_available == row.tokens_after
    assert not row.truncated


def test_a_preview_is_not_logged(team: Team) -> None:
    assert make_filtering(team, store=False).id is None
    assert not Assembly.objects.exists()


def test_the_event(team: Team) -> None:
    with structlog.testing.capture_logs() as events:
        result = make_filtering(team, "confidence", counter="heuristic")
    assert events == [
        {
            "event": "phase_context_filtered", "log_level": "info", "assembly_id": result.id,
            "phase": "confidence", "full_tokens": 5_175, "filtered_tokens": 550, "saved_tokens": 4_625,
            "saved_percent": 89,
        }
    ]  # fmt: skip


def test_a_filtering_takes_six_statements(team: Team, django_assert_num_queries) -> None:
    with django_assert_num_queries(6):  # the link, the profile, savepoint, row, payload, release
        make_filtering(team)


class TestProfiles:
    def test_defaults_until_one_is_published(self, team: Team, other_team: Team) -> None:
        assert {found.value.phase: found.value for found in load_active_profiles(team.pk)} == DEFAULT_PROFILES
        publish(team, budget_tokens=9_000)
        found = load_active_profile(team.pk, "building")
        assert (found.version, found.value.budget_tokens) == (1, 9_000)
        assert found.value.fields == DEFAULT_PROFILES["building"].fields
        assert load_active_profile(other_team.pk, "building").version is None
        assert len(load_active_profiles(team.pk)) == 6

    def test_a_version_carries_over_what_is_not_given(self, team: Team) -> None:
        publish(team, budget_tokens=9_000)
        second = publish(team, fields=["files", "tree"])
        assert (second.version, second.budget_tokens, second.fields) == (2, 9_000, ["files", "tree"])
        assert PhaseProfile.objects.get(is_active=True) == second

    def test_a_phase_of_ones_own_needs_everything(self, team: Team) -> None:
        with pytest.raises(InvalidInput) as caught:
            publish(team, "security", budget_tokens=10)
        assert [problem.field for problem in caught.value.problems] == ["fields"]
        publish(team, "security", budget_tokens=10, fields=[])
        assert make_filtering(team, "security").outcome.filtered_tokens == 0

    @pytest.mark.parametrize(
        ("settings", "field"),
        [({"fields": ["files", "files"]}, "fields"), ({"budget_tokens": None}, "budget_tokens")],
    )
    def test_refused_settings(self, team: Team, settings: dict, field: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            publish(team, **settings)
        assert caught.value.problems[0].field == field
        assert not PhaseProfile.objects.exists()

    def test_an_earlier_version_is_activated(self, team: Team) -> None:
        publish(team, budget_tokens=9_000)
        publish(team, budget_tokens=8_000)
        assert activate_version(PhaseProfile, team=team, phase="building", version=1).is_active
        assert load_active_profile(team.pk, "building").value.budget_tokens == 9_000
        assert publish(team).version == 3
        with pytest.raises(NotFound):
            find_version(PhaseProfile, team.pk, "building", 9)

    def test_phases_are_bounded(self, team: Team) -> None:
        PhaseProfile.objects.bulk_create(
            PhaseProfile(team=team, phase=f"p{i}", version=1, is_active=True, budget_tokens=1)
            for i in range(PHASES_MAX)
        )
        with pytest.raises(Conflict):
            publish(team, "one more", budget_tokens=1, fields=[])
        assert publish(team, "p1").version == 2

    def test_a_version_never_changes(self, team: Team) -> None:
        profile = publish(team, budget_tokens=9_000)
        with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
            PhaseProfile.objects.filter(pk=profile.pk).update(budget_tokens=1)

    def test_the_database_refuses_what_no_phase_could_be(self, team: Team) -> None:
        for wrong in ({"fields": ["soul"]}, {"phase": ""}):
            values = {"team": team, "phase": "x", "version": 1, "budget_tokens": 1, **wrong}
            with pytest.raises(IntegrityError), transaction.atomic():
                PhaseProfile.objects.create(**values)
