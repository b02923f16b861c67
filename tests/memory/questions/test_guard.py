from decimal import Decimal

import pytest

from contextopt.errors import BelowMinimum
from contextopt.people.models import AuditEvent
from contextopt.spaces.configs import ContextConfig, activate_config, publish_config
from contextopt.spaces.inputs import ConfigIn
from memory.questions.guard import FRESH_FOR
from memory.questions.inputs import QuestionIn
from memory.questions.models import Evaluation
from memory.questions.sets import add_question, create_set, set_minimum
from tests.memory.questions.conftest import SAID_AT

pytestmark = pytest.mark.django_db

# Cuts every record before its main point.
POOR = ConfigIn(question_notes_chars=10)


def publish(space, data: ConfigIn = POOR) -> ContextConfig:
    return publish_config(space=space, data=data, created_by="test")


def test_without_a_minimum_settings_are_published_unseen(space, questions) -> None:
    assert publish(space).version == 2
    assert not Evaluation.objects.exists()


def test_settings_below_the_minimum_are_refused_with_numbers(space, questions) -> None:
    set_minimum(question_set=questions, min_recall=0.9, actor="test")
    with pytest.raises(BelowMinimum) as refused:
        publish(space)
    message = str(refused.value)
    assert "'Small talk'" in message
    assert "over 4 questions, below its minimum of 90.0 %" in message
    evaluation = Evaluation.objects.get()
    assert f"{evaluation.recall * 100:.1f} %" in message
    assert space.configs.active().get().version == 1
    assert not AuditEvent.objects.filter(action="config.published").exists()


def test_the_refusal_names_the_recall_of_the_active_config(space, questions) -> None:
    set_minimum(question_set=questions, min_recall=0.9, actor="test")
    assert publish(space, ConfigIn(question_max_records=6)).version == 2
    with pytest.raises(BelowMinimum, match=r"The active config has 100\.0 %\."):
        publish(space)


def test_settings_that_reach_the_minimum_are_published(space, questions) -> None:
    set_minimum(question_set=questions, min_recall=1.0, actor="test")
    assert publish(space, ConfigIn(recency_weight=Decimal("0.6"))).version == 2


def test_an_evaluation_counts_until_a_question_changes_or_an_hour_passed(space, questions) -> None:
    set_minimum(question_set=questions, min_recall=0.9, actor="test")
    for count in (1, 1):
        with pytest.raises(BelowMinimum):
            publish(space)
        assert Evaluation.objects.count() == count
    data = QuestionIn(query="Who goes by tram?", expected=["D1:6"], as_of=SAID_AT)
    add_question(question_set=questions, data=data, actor="test")
    with pytest.raises(BelowMinimum, match="over 5 questions"):
        publish(space)
    Evaluation.objects.update(created_at=Evaluation.objects.latest("pk").created_at - FRESH_FOR * 2)
    with pytest.raises(BelowMinimum):
        publish(space)
    assert Evaluation.objects.count() == 3


def test_going_back_to_a_version_is_guarded_too(space, questions) -> None:
    publish(space)
    publish(space, ConfigIn(question_notes_chars="all"))
    set_minimum(question_set=questions, min_recall=0.9, actor="test")
    with pytest.raises(BelowMinimum):
        activate_config(space=space, version=2)
    assert activate_config(space=space, version=3).version == 3
    assert activate_config(space=space, version=1).version == 1


def test_an_empty_set_demands_nothing(space) -> None:
    empty = create_set(space=space, name="Empty", actor="test")
    set_minimum(question_set=empty, min_recall=1.0, actor="test")
    assert publish(space).version == 2


def test_a_large_set_must_be_evaluated_first(space, questions, monkeypatch) -> None:
    set_minimum(question_set=questions, min_recall=0.9, actor="test")
    monkeypatch.setattr("memory.questions.guard.AT_ONCE_QUESTIONS", 3)
    with pytest.raises(BelowMinimum, match="Evaluate these settings on the question set 'Small talk' first"):
        publish(space)
    assert not Evaluation.objects.exists()


def test_all_sets_that_refuse_are_named(space, questions) -> None:
    set_minimum(question_set=questions, min_recall=0.9, actor="test")
    other = create_set(space=space, name="More talk", actor="test")
    data = QuestionIn(query="Which pet did Ada adopt?", expected=["D1:1"], answer="A grey cat named Pixel")
    add_question(question_set=other, data=data, actor="test")
    set_minimum(question_set=other, min_recall=1.0, actor="test")
    with pytest.raises(BelowMinimum, match=r"'More talk'.*'Small talk'"):
        publish(space)
