from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine

from benchmarks.retrieval.dialogues import Dialogue, Question, Turn
from benchmarks.retrieval.evidence import Context, measure_context
from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.models import Assembly
from contextopt.assemblies.purge import purge_record
from contextopt.errors import Conflict, InvalidInput
from contextopt.locks import Lock, only_here
from contextopt.spaces.configs import draft_settings, publish_settings
from contextopt.spaces.inputs import ConfigIn
from contextopt.spaces.records import delete_record
from memory.questions.evaluationresults import result_rows
from memory.questions.evaluations import (
    EVALUATIONS,
    last_evaluation,
    request_evaluation,
    settings_key,
    start_evaluation,
)
from memory.questions.inputs import EvaluationIn, QuestionIn
from memory.questions.models import Evaluation, EvaluationState
from memory.questions.sets import add_question, create_set
from memory.tasks import evaluate, resume_evaluations
from memory.work import BATCH
from tests.concurrency import beside
from tests.memory.questions.conftest import ASKED, SAID_AT, TALK

pytestmark = pytest.mark.django_db


def run(question_set, **asked) -> Evaluation:
    evaluation = request_evaluation(question_set=question_set, data=EvaluationIn(**asked), actor="test")
    EVALUATIONS.complete(evaluation)
    return evaluation


def test_measures_recall_precision_and_tokens(questions) -> None:
    evaluation = run(questions)
    assert (evaluation.state, evaluation.questions, evaluation.asked) == ("done", 4, 4)
    assert evaluation.recall == 1.0
    # Each context holds all six turns, one of them the right one.
    assert evaluation.precision == pytest.approx(1 / 6)
    assert evaluation.tokens_mean > 100
    assert evaluation.empty == 0
    assert evaluation.config_version == 1


def test_no_evaluation_is_logged_as_a_prompt(questions) -> None:
    run(questions)
    assert not Assembly.objects.exists()


@pytest.mark.parametrize("budget", [60, 80, 120, 400])
def test_gives_the_benchmarks_recall(space, questions, budget) -> None:
    turns = tuple(
        Turn(name, speaker, text, SAID_AT, 1, place) for place, (name, speaker, text) in enumerate(TALK)
    )
    asked = [Question(text, "single-hop", answer, frozenset(ids)) for _, text, ids, answer in ASKED]
    dialogue = Dialogue("talk", turns, tuple(asked))
    measured, shares = [], []
    for question in asked:
        request = AssemblyIn(
            space=space.slug, query=question.text, as_of=dialogue.ended_at, context_tokens=budget
        )
        result = assemble_space(team_id=space.team_id, request=request, actor="test", store=False)
        names = {entry.id: entry.external_id for entry in result.ledger}
        lines = {names[pk]: line for pk, line in result.record_lines.items()}
        context = Context(result.text, lines)
        measured.append(measure_context(dialogue, question, context, budget))
        # Where a set has no answers, the benchmark's recall is the share of the evidence's tokens.
        shares.append(measure_context(dialogue, replace(question, answer=""), context, budget).recall)
    evaluation = run(questions, context_tokens=budget)
    assert evaluation.recall == pytest.approx(sum(each.recall for each in measured) / 4)
    assert evaluation.precision == pytest.approx(sum(each.precision for each in measured) / 4)
    assert evaluation.evidence_shown == pytest.approx(sum(shares) / 4)
    assert evaluation.tokens_mean == pytest.approx(sum(each.tokens for each in measured) / 4)
    assert evaluation.empty == sum(each.is_empty for each in measured)


def test_a_record_cut_too_short_is_not_found(space, questions) -> None:
    short = run(questions, settings=ConfigIn(question_notes_chars=15))
    assert short.recall < 1
    outcomes = {each["outcome"] for result in result_rows(short) for each in result.outcomes}
    assert "cut" in outcomes


def test_says_which_step_lost_a_record(space, questions, talk) -> None:
    delete_record(record=talk[0], actor="test")
    first, *_, last = result_rows(run(questions, context_tokens=60)).order_by("question_id")
    assert [each["outcome"] for each in first.missed] == ["deleted"]
    assert (first.recall, first.question.name, last.question.name) == (0.0, "q1", "q4")
    dropped = [each for result in result_rows(run(questions, context_tokens=30)) for each in result.missed]
    assert {"over_budget"} == {each["reason"] for each in dropped if each["outcome"] == "dropped"}


def test_a_purged_record_leaves_no_name(space, questions, talk) -> None:
    evaluation = run(questions)
    before = (evaluation.recall, evaluation.precision)
    purge_record(record=talk[0], actor="test")
    talk[0].refresh_from_db()
    named = [each["external_id"] for result in result_rows(evaluation) for each in result.outcomes]
    assert "D1:1" not in named
    assert {talk[0].external_id, "D1:2"} < set(named)
    evaluation.refresh_from_db()
    assert (evaluation.recall, evaluation.precision) == before


def test_evaluates_a_version_or_a_draft(space, questions) -> None:
    publish_settings(space=space, created_by="test", question_max_records=1)
    assert run(questions, config_version=1).recall == 1.0
    narrow = run(questions)
    assert narrow.config_version == 2
    draft = run(questions, settings=ConfigIn(question_max_records=6))
    assert draft.is_draft
    assert draft.recall == 1.0
    assert draft.precision < narrow.precision


def test_settings_are_equal_however_their_numbers_are_written(space) -> None:
    config = space.configs.get()
    settings = config.settings
    assert settings_key(settings) == settings_key(settings.replace(recency_weight=Decimal("0.700")))
    assert settings_key(settings) != settings_key(settings.replace(recency_weight=Decimal("0.701")))


def test_a_set_without_questions_cannot_be_evaluated(space) -> None:
    with pytest.raises(Conflict, match="no questions yet"):
        run(create_set(space=space, name="Empty", actor="test"))


def test_settings_that_no_context_can_be_assembled_with_fail(questions) -> None:
    settings = questions.space.configs.get().settings.replace(total_tokens=1_000)
    broken = start_evaluation(question_set=questions, settings=settings, config_version=None, actor="test")
    EVALUATIONS.complete(broken)
    assert broken.state == EvaluationState.FAILED
    assert broken.error


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"encoding": "klingon"}, "encoding"),
        ({"total_tokens": 2_800}, "total_tokens"),
    ],
)
def test_settings_that_could_not_be_published_are_not_evaluated(questions, settings, field) -> None:
    with pytest.raises(InvalidInput) as caught:
        run(questions, settings=ConfigIn(**settings))
    assert [problem.field for problem in caught.value.problems] == [field]
    assert not questions.evaluations.exists()


def test_goes_on_where_it_was_left(space, questions) -> None:
    for number in range(BATCH):
        data = QuestionIn(query=f"Question {number} about boats?", expected=["D1:2"], as_of=SAID_AT)
        add_question(question_set=questions, data=data, actor="test")
    settings = space.configs.get().settings
    evaluation = start_evaluation(question_set=questions, settings=settings, config_version=1, actor="test")
    assert EVALUATIONS.go_on(evaluation, seconds=0)
    assert (evaluation.asked, evaluation.state) == (BATCH, EvaluationState.RUNNING)
    first = list(evaluation.results.values_list("pk", flat=True))
    evaluate(evaluation.pk)
    evaluation.refresh_from_db()
    assert (evaluation.asked, evaluation.state) == (BATCH + 4, EvaluationState.DONE)
    assert set(first) < set(evaluation.results.values_list("pk", flat=True))
    assert not EVALUATIONS.go_on(evaluation, seconds=0)


def test_a_lost_evaluation_is_taken_up_again(space, questions) -> None:
    settings = space.configs.get().settings
    evaluation = start_evaluation(question_set=questions, settings=settings, config_version=1, actor="test")
    Evaluation.objects.update(worked_at=evaluation.worked_at - timedelta(minutes=1))
    resume_evaluations()
    evaluation.refresh_from_db()
    assert evaluation.state == EvaluationState.DONE


@pytest.mark.django_db(transaction=True)
def test_two_processes_do_not_ask_at_once(space, questions) -> None:
    settings = space.configs.get().settings
    evaluation = start_evaluation(question_set=questions, settings=settings, config_version=1, actor="test")
    with only_here(Lock.EVALUATION, evaluation.pk):
        assert not beside(lambda: EVALUATIONS.go_on(evaluation, seconds=9)).result(timeout=30)
    assert not evaluation.results.exists()


def test_the_last_evaluation_is_of_these_settings(space, questions) -> None:
    run(questions)
    with time_machine.travel(SAID_AT + timedelta(days=999)):
        newest = run(questions, settings=ConfigIn(question_max_records=1))
    key = settings_key(space.configs.active().get().settings)
    draft = draft_settings(space=space, created_by="test", question_max_records=2)
    with time_machine.travel(SAID_AT + timedelta(days=1_000)):
        run(questions, config_version=draft.version)
    assert last_evaluation(questions, key).config_version == 1
    assert questions.evaluations.published().newest_first().first().config_version == 1
    assert last_evaluation(questions, newest.settings_key) == newest
