"""Fixed and adaptive budgets compared on a question set."""

from decimal import Decimal

import pytest

from contextopt.errors import Conflict
from contextopt.people.models import AuditEvent
from contextopt.spaces.configs import publish_config
from contextopt.spaces.inputs import ConfigIn
from memory.questions.calibration import (
    RECALL_LOST,
    Calibration,
    Trial,
    begin_calibration,
    draft_proposed,
    read_calibration,
)
from memory.questions.evaluations import EVALUATIONS
from memory.questions.models import Evaluation, EvaluationState, QuestionSet
from memory.questions.sets import create_set

pytestmark = pytest.mark.django_db


def calibrate(questions: QuestionSet) -> Calibration:
    begin_calibration(question_set=questions, actor="test")
    assert read_calibration(questions).is_running
    for evaluation in questions.evaluations.filter(state=EvaluationState.RUNNING):
        EVALUATIONS.complete(evaluation)
    return read_calibration(questions)


def test_each_budget_is_evaluated_once(questions) -> None:
    assert not read_calibration(questions).is_done
    found = calibrate(questions)
    assert found.is_done and not found.is_running
    assert questions.evaluations.count() == len(found.trials) == 6
    settings = [trial.evaluation.settings for trial in found.trials]
    assert [each["budget_mode"] for each in settings] == ["fixed", *["adaptive"] * 5]
    assert [Decimal(each["adaptive_strictness"]) for each in settings[1:]] == [
        trial.strictness for trial in found.adaptive
    ]
    begin_calibration(question_set=questions, actor="test")
    assert questions.evaluations.count() == 6


def test_proposes_what_sends_least_and_finds_as_much(questions, space) -> None:
    found = calibrate(questions)
    assert found.fixed.recall == 1.0
    assert found.proposed is not None
    assert found.proposed.tokens == min(trial.tokens for trial in found.adaptive if trial.recall == 1.0)
    assert found.proposed.tokens < found.fixed.tokens
    draft = draft_proposed(question_set=questions, actor="user:ann")
    assert (draft.is_draft, draft.settings.budget_mode) == (True, "adaptive")
    assert draft.settings.adaptive_strictness == found.proposed.strictness
    assert "Small talk" in draft.note
    assert AuditEvent.objects.filter(action="config.drafted").count() == 1
    assert space.configs.active().get().settings.budget_mode == "fixed"


def trial(strictness: str | None, recall: float, tokens: float) -> Trial:
    done = Evaluation(state=EvaluationState.DONE, recall=recall, tokens_mean=tokens)
    return Trial(None if strictness is None else Decimal(strictness), done)


def test_recall_comes_before_tokens() -> None:
    fixed, lax, strict = trial(None, 0.9, 2000), trial("0", 0.895, 1500), trial("0.2", 0.88, 700)
    assert Calibration(fixed, (lax, strict)).proposed == lax
    assert Calibration(fixed, (strict,)).proposed is None
    assert RECALL_LOST < 0.02


def test_a_budget_that_saves_nothing_is_not_proposed(questions) -> None:
    assert Calibration(trial(None, 0.9, 500), (trial("0", 0.9, 500),)).proposed is None
    with pytest.raises(Conflict):
        draft_proposed(question_set=questions, actor="test")


def test_other_settings_are_compared_anew(questions, space) -> None:
    calibrate(questions)
    publish_config(space=space, data=ConfigIn(context_tokens=500), created_by="test")
    assert not read_calibration(questions).is_done


def test_a_set_without_questions_is_refused(space) -> None:
    with pytest.raises(Conflict):
        begin_calibration(question_set=create_set(space=space, name="Empty", actor="test"), actor="test")


def test_a_hundredth_less_recall_is_still_proposed() -> None:
    def trial(recall: float, tokens: float) -> Trial:
        made = Evaluation(state=EvaluationState.DONE, recall=recall, tokens_mean=tokens)
        return Trial(None, made)

    # As binary fractions, 0.10 - 0.01 is more than 0.09.
    assert Calibration(trial(0.10, 500), (trial(0.09, 300),)).proposed is not None
    assert Calibration(trial(0.10, 500), (trial(0.08, 300),)).proposed is None
