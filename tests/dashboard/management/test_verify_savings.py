"""`verify_savings` finds every figure of the Overview that differs from its source."""

import json
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F, Model, Sum
from django.utils import timezone

from contextopt.agents.handoffs.findings import compress_phase
from contextopt.agents.handoffs.inputs import CompressIn
from contextopt.agents.models import Task
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.people.models import Team
from contextopt.spaces.configs import publish_config
from contextopt.spaces.inputs import ConfigIn, RecordPatch
from contextopt.spaces.models import Space
from contextopt.spaces.records import update_record
from dashboard.demo import load_demo
from dashboard.rollups.fold import ALWAYS, keep_rollups
from dashboard.rollups.models import (
    DayRollup,
    DaySummary,
    HourSummary,
    ModelPrice,
    QuarterRollup,
    RollupZone,
    StaleDay,
)
from dashboard.rollups.verify import verify_costs
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.models import Vote
from memory.feedback.votes import give_feedback
from memory.questions.evaluations import EVALUATIONS, request_evaluation
from memory.questions.inputs import EvaluationIn
from memory.questions.models import EvaluatedQuestion, Evaluation
from memory.review.models import ReviewItem
from memory.review.queue import fill_queue
from tests.factories import (
    NOW,
    make_assembly,
    make_filtering,
    make_finding,
    make_record,
    make_space,
    make_task,
)
from tests.memory.questions.conftest import make_questions, make_talk

type Verify = Callable[..., list[dict[str, Any]]]
TABLES: tuple[type[Model], ...] = (QuarterRollup, DayRollup, HourSummary, DaySummary)


pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def team(shared: None) -> Team:
    return Team.objects.ensure_default()


@pytest.fixture(scope="module")
def space(team: Team) -> Space:
    """A space with assemblies on two days, in the rollups."""
    space = make_space(team)
    for number in range(25):
        make_record(space, title=f"Note {number}")
    for hours in (0, 1, 30):
        make_assembly(space, created_at=NOW - timedelta(hours=hours))
    make_filtering(team)
    keep_rollups()
    return space


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Verify:
    """Return the differences that the command lists."""

    def run(*options: str) -> list[dict[str, Any]]:
        capsys.readouterr()
        code: object = 0
        try:
            call_command("verify_savings", "--json", *options)
        except SystemExit as stop:
            code = stop.code
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["differences"]
        assert code == bool(found)
        return found

    return run


def log_prompts(space: Space, **request: Any) -> None:
    """Log a conversation of two prompts."""
    for tokens in (0, 400):
        asked = {"conversation": "c-1", "placement": "tail", "model": "own", "system_tokens": 2_000}
        make_assembly(space, **asked, history_tokens=tokens, **request)


def test_costs_are_those_of_the_logs_prompts(space: Space, verify: Verify) -> None:
    price = ModelPrice.objects.create(
        model="own", dollars_per_million=Decimal(10), cached_read_dollars=Decimal(1)
    )
    log_prompts(space)
    keep_rollups()
    assert verify() == []
    check = verify_costs(space.team_id)
    assert (check.checked, check.differences) == (1, [])
    price.effective_from = timezone.now().date() + timedelta(days=1)
    price.save()
    assert verify() == []
    ModelPrice.objects.update(effective_from=date(2000, 1, 1))
    DayRollup.objects.filter(prompts__gt=0).update(cached_tokens=F("cached_tokens") + 100)
    assert {"dollars", "cached_tokens"} <= figures(verify())


def figures(found: list[dict[str, Any]]) -> set[str]:
    return {row["figure"] for row in found}


def rewrite(**values: object) -> Assembly:
    """Change a logged assembly of a space behind the trigger's back."""
    row = Assembly.objects.filter(kind="space").earliest("pk")
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE contextopt_assembly DISABLE TRIGGER contextopt_assembly_immutable")
        Assembly.objects.filter(pk=row.pk).update(**values)
        cursor.execute("ALTER TABLE contextopt_assembly ENABLE TRIGGER contextopt_assembly_immutable")
    return row


def test_everything_is_counted(space: Space, capsys: pytest.CaptureFixture[str]) -> None:
    rollups = sum(table._default_manager.count() for table in TABLES)
    call_command("verify_savings")
    assert f"4 assemblies and {rollups} rollups checked, 0 figures differ." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        ("truncated", False),
        ("warning_codes", ["nothing_relevant"]),
        ("stage", 3),
        ("model", "large"),
        ("tokens_available", 50_000),
        ("low_relevance", F("low_relevance") + 1),
    ],
)
def test_a_figure_of_an_assembly(space: Space, verify: Verify, figure: str, value: object) -> None:
    other = {"over_record_limit": F("over_record_limit") - 1} if figure == "low_relevance" else {}
    row = rewrite(**{figure: value}, **other)
    assert figure in figures([found for found in verify() if found.get("assembly") == row.pk])


def test_replays_of_contexts_whose_records_changed(
    space: Space, verify: Verify, capsys: pytest.CaptureFixture[str]
) -> None:
    record = space.records.earliest("pk")
    update_record(record=record, changes=RecordPatch(title="Renamed since"), actor="test")
    call_command("verify_savings", "--replays", "2")
    assert "and 2 replays checked, 0 figures differ." in capsys.readouterr().out
    row = rewrite(sha256="0" * 64)
    assert not [found for found in verify() if "replay" in found]
    (found,) = (found for found in verify("--replays", "9") if "replay" in found)
    assert (found["replay"], found["figure"], found["stored"]) == (row.pk, "sha256", "0" * 64)


def test_contexts_that_cannot_be_replayed_are_counted(
    space: Space, capsys: pytest.CaptureFixture[str]
) -> None:
    AssemblyPayload.objects.update(givens=None)
    call_command("verify_savings", "--replays", "9")
    said = capsys.readouterr().out
    assert "replays" not in said
    assert "3 contexts could not be replayed; `replay` says why." in said


def test_the_number_of_replays_has_a_limit(team: Team) -> None:
    with pytest.raises(CommandError, match="--replays: must be at least 0"):
        call_command("verify_savings", "--replays", "-1")


def test_an_assembly_of_another_config(space: Space, verify: Verify) -> None:
    row = rewrite(config=publish_config(space=space, data=ConfigIn(window_days=7), created_by="test"))
    found = [each for each in verify() if "assembly" in each]
    differs = {"figure": "config version", "stored": 2, "recomputed": 1, "team": space.team.slug}
    assert found == [{"assembly": row.pk, **differs}]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "figure",
    [
        "assemblies", "truncated", "empties", "records_filtered", "records_included", "tokens_before",
        "tokens_after", "tokens_saved", "ratios", "with_ratio", "utilisations", "with_utilisation",
    ],
)  # fmt: skip
def test_a_sum_of_a_rollup(space: Space, verify: Verify, table: type[Model], figure: str) -> None:
    row = table._default_manager.filter(kind="space").earliest("start")
    table._default_manager.filter(pk=row.pk).update(**{figure: F(figure) + 1})
    found = verify()
    assert figures(found) == {figure}
    # Quarters are compared with the log, and are what the others are compared with.
    assert len(found) == (4 if table is QuarterRollup else 1)
    assert float(found[0]["stored"]) == pytest.approx(float(found[0]["recomputed"]) + 1)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "histogram", ["ms_histogram", "tokens_histogram", "utilisation_histogram", "ratio_histogram"]
)
def test_a_histogram(space: Space, verify: Verify, table: type[Model], histogram: str) -> None:
    row = table._default_manager.filter(kind="space").earliest("start")
    counts = [float(count) for count in getattr(row, histogram)]
    table._default_manager.filter(pk=row.pk).update(**{histogram: [counts[0] + 1, *counts[1:]]})
    assert figures(verify()) == {histogram}


@pytest.mark.parametrize("table", TABLES)
def test_a_rollup_that_is_missing(space: Space, verify: Verify, table: type[Model]) -> None:
    table._default_manager.filter(kind="space").earliest("start").delete()
    found = verify()
    assert {"assemblies", "tokens_saved", "ms_histogram"} <= figures(found)
    assert None in {row["stored"] for row in found}


def test_rollups_that_wait_for_a_job_are_no_difference(space: Space, verify: Verify) -> None:
    make_assembly(space, created_at=NOW)
    assert verify() == []
    Assembly.objects.filter(created_at__lt=NOW - timedelta(hours=12)).delete()
    assert StaleDay.objects.exists()
    assert verify() == []
    DaySummary.objects.all().delete()
    RollupZone.objects.update(summarised_since=None)
    assert verify() == []
    keep_rollups()
    assert RollupZone.objects.get().summarised_since == ALWAYS[0]
    assert verify() == []


def test_rollups_of_another_time_zone(space: Space, verify: Verify, team: Team) -> None:
    Team.objects.filter(pk=team.pk).update(time_zone="Asia/Kathmandu")
    assert verify() == []
    keep_rollups()
    assert verify() == []


def test_an_assembly_that_was_never_counted(space: Space, verify: Verify) -> None:
    make_assembly(space, created_at=NOW)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM dashboard_unfoldedassembly")
    found = verify()
    assert {row["rollup"].split(" from")[0] for row in found} == {"quarter"}
    assert "assemblies" in figures(found)


class TestTeams:
    @pytest.fixture
    def other(self, space: Space) -> Team:
        """A second team, whose only assembly is in the rollups."""
        other = Team.objects.create(name="Second", slug="second")
        make_assembly(make_space(other, space.slug), created_at=NOW)
        keep_rollups()
        return other

    def test_all_are_checked(
        self, space: Space, other: Team, verify: Verify, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert verify() == []
        QuarterRollup.objects.filter(team=other).update(truncated=F("truncated") + 1)
        found = verify()
        assert {row["team"] for row in found} == {"second"}
        with pytest.raises(SystemExit):
            call_command("verify_savings")
        said = capsys.readouterr().out
        assert f" checked in 2 teams, {len(found)} figures differ (second {len(found)})." in said
        assert "\nsecond: rollup quarter from " in said

    def test_one_alone(self, space: Space, other: Team, verify: Verify) -> None:
        QuarterRollup.objects.filter(team=other).update(truncated=F("truncated") + 1)
        assert verify("--team", space.team.slug) == []
        assert {row["team"] for row in verify("--team", "second")} == {"second"}

    def test_a_space_is_one_of_the_default_team(
        self, space: Space, other: Team, capsys: pytest.CaptureFixture[str]
    ) -> None:
        call_command("verify_savings", "--space", space.slug)
        assert capsys.readouterr().out.startswith("3 assemblies checked, 0")
        call_command("verify_savings", "--space", space.slug, "--team", "second")
        assert capsys.readouterr().out.startswith("1 assembly checked, 0")

    def test_rollups_of_all_are_rebuilt(
        self, space: Space, other: Team, verify: Verify, capsys: pytest.CaptureFixture[str]
    ) -> None:
        QuarterRollup.objects.all().delete()
        assert {row["team"] for row in verify()} == {space.team.slug, "second"}
        call_command("rebuild_rollups")
        rollups = QuarterRollup.objects.count()
        assert f"{rollups} rollups in 2 teams." in capsys.readouterr().out
        assert verify() == []

    def test_a_team_that_does_not_exist(self, team: Team) -> None:
        for command in ("verify_savings", "rebuild_rollups"):
            with pytest.raises(CommandError, match="there is no team 'nowhere'"):
                call_command(command, "--team", "nowhere")


class TestHandoffs:
    @pytest.fixture
    def task(self, space: Space) -> Task:
        task = make_task(space.team)
        make_finding(task)
        compress_phase(team_id=task.team_id, task_id=task.pk, data=CompressIn(), actor="test")
        keep_rollups()
        return task

    def test_one_that_is_replaced_leaves_the_sums(self, task: Task, verify: Verify) -> None:
        make_finding(task)
        compress_phase(team_id=task.team_id, task_id=task.pk, data=CompressIn(), actor="test")
        assert verify() == []
        keep_rollups()
        assert not StaleDay.objects.exists()
        assert verify() == []
        shown = DaySummary.objects.filter(kind="handoff").aggregate(Sum("tokens_saved"), Sum("tokens_after"))
        first, second = Assembly.objects.filter(kind="handoff").order_by("pk")
        assert (first.is_sent, second.is_sent) == (False, True)
        assert shown == {
            "tokens_saved__sum": second.tokens_saved, "tokens_after__sum": second.tokens_after,
        }  # fmt: skip

    def test_one_that_counts_though_nobody_received_it_is_found(self, task: Task, verify: Verify) -> None:
        Assembly.objects.filter(kind="handoff").update(is_sent=False)
        row = Assembly.objects.get(kind="handoff")
        [found] = [each for each in verify() if "hand-off" in each]
        assert (found["hand-off"], found["figure"], found["recomputed"]) == (row.pk, "is_sent", True)


def test_one_spaces_assemblies_say_nothing_about_sums(space: Space, verify: Verify) -> None:
    QuarterRollup.objects.update(tokens_saved=F("tokens_saved") + 1)
    assert verify("--space", space.slug) == []


@pytest.fixture
def evaluation(space: Space) -> Evaluation:
    talk = make_space(space.team, "talk")
    make_talk(talk)
    found = request_evaluation(question_set=make_questions(talk), data=EvaluationIn(), actor="test")
    EVALUATIONS.complete(found)
    return found


@pytest.mark.parametrize("figure", ["recall", "precision", "evidence_shown", "tokens_mean", "empty"])
def test_the_recall_on_question_sets(evaluation: Evaluation, verify: Verify, figure: str) -> None:
    assert verify() == []
    Evaluation.objects.filter(pk=evaluation.pk).update(**{figure: F(figure) + 1})
    [found] = verify()
    assert (found["evaluation"], found["figure"]) == (evaluation.pk, figure)
    assert found["stored"] == pytest.approx(found["recomputed"] + 1)


def test_recall_is_of_the_outcomes(evaluation: Evaluation, verify: Verify) -> None:
    asked = evaluation.results.filter(recall=1).earliest("pk")
    EvaluatedQuestion.objects.filter(pk=asked.pk).update(
        outcomes=[{**outcome, "outcome": "cut"} for outcome in asked.outcomes]
    )
    assert figures(verify()) == {"recall"}


def test_an_evaluation_that_lost_a_question_cannot_be_checked(evaluation: Evaluation, verify: Verify) -> None:
    evaluation.question_set.questions.earliest("pk").delete()
    assert verify() == []


def dislike(space: Space) -> Vote:
    """Downvote an assembly, which brings it to the review."""
    subject, opinion = SubjectIn(assembly_id=make_assembly(space).id), OpinionIn(rating="down")
    cast = give_feedback(team=space.team, subject=subject, opinion=opinion, rater="user:olga")
    fill_queue(space.team, now=timezone.now())
    return cast


@pytest.mark.parametrize("figure", ["stage", "config_version", "phase", "space_id"])
def test_the_copies_of_votes(space: Space, verify: Verify, figure: str) -> None:
    cast = dislike(space)
    assert verify() == []
    other = {"phase": "planning", "space_id": make_space(space.team, "other").pk}.get(figure, 9)
    Vote.objects.filter(pk=cast.pk).update(**{figure: other})
    [found] = verify()
    assert (found["vote"], found["figure"], found["stored"]) == (cast.pk, figure, other)


@pytest.mark.parametrize("figure", ["stage", "config_version"])
def test_the_copies_of_reviews(space: Space, verify: Verify, figure: str) -> None:
    item = ReviewItem.objects.get(assembly=dislike(space).assembly)
    assert verify() == []
    ReviewItem.objects.filter(pk=item.pk).update(**{figure: 9})
    [found] = verify()
    assert (found["review item"], found["figure"], found["stored"]) == (item.pk, figure, 9)


def test_example_data_of_every_kind(team: Team, verify: Verify) -> None:
    load_demo(team, now=timezone.now(), actor="test", days=3, assemblies_a_day=12)
    assert verify() == []
    keep_rollups()
    assert verify() == []
    assert Vote.objects.exists()
    assert set(Assembly.objects.values_list("kind", flat=True)) >= {"space", "phase", "retry", "handoff"}
