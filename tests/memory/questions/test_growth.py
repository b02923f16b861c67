import pytest

from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.models import Assembly
from contextopt.errors import Conflict
from memory.questions.growth import (
    SET_NAME,
    add_proposal,
    propose_from_assembly,
    propose_from_review,
)
from memory.questions.models import QuestionSource
from memory.review.inputs import VerdictIn
from memory.review.reservations import give_verdict
from tests import factories
from tests.memory.factories import make_review
from tests.memory.questions.conftest import SAID_AT

pytestmark = pytest.mark.django_db
PET = "Which pet did Ada adopt?"


def judge(item, verdict: str, records) -> None:
    data = VerdictIn(verdict=verdict, record_ids=[record.pk for record in records])
    give_verdict(item=item, reviewer="user:olga", data=data)


def proposal_of(item):
    return propose_from_review(item, list(item.slots.judged()))


def test_a_verdict_becomes_a_question(space, talk) -> None:
    item = make_review(space, query=PET, as_of=SAID_AT)
    judge(item, "context_missing", talk[:1])
    question, is_new = add_proposal(proposal=proposal_of(item), actor="user:olga")
    assert is_new
    assert (question.text, question.source, question.as_of) == (PET, QuestionSource.VERDICT, SAID_AT)
    assert (question.question_set.name, question.question_set.space) == (SET_NAME, space)
    assert list(question.records.all()) == talk[:1]
    again, is_new = add_proposal(proposal=proposal_of(item), actor="user:olga")
    assert (again, is_new) == (question, False)


def make_answer(space, settings, text: str):
    return factories.make_answer(factories.make_conversation(space, stage=5), settings, text, asked=PET)


@pytest.mark.parametrize("verdict", ["context_wrong", "model", "no_problem"])
def test_other_verdicts_do_not_say_what_was_missing(space, talk, verdict) -> None:
    item = make_review(space, query=PET, as_of=SAID_AT)
    judge(item, verdict, talk[:1])
    with pytest.raises(Conflict, match="Choose the records yourself"):
        add_proposal(proposal=proposal_of(item), actor="user:olga")


def test_a_context_without_a_question_becomes_none(space, talk) -> None:
    item = make_review(space, as_of=SAID_AT)
    judge(item, "context_missing", talk[:1])
    assert proposal_of(item) is None


def test_an_upvoted_answer_becomes_a_question_with_the_records_it_used(space, talk, settings) -> None:
    message = make_answer(space, settings, "She adopted a grey cat called Pixel.")
    question, _ = add_proposal(proposal=propose_from_assembly(message.assembly), actor="user:olga")
    assert question.source == QuestionSource.VOTE
    assert question.answer == "She adopted a grey cat called Pixel."
    assert list(question.records.all()) == talk[:1]


def test_an_answer_that_used_nothing_known_needs_a_choice(space, talk, settings) -> None:
    message = make_answer(space, settings, "I don't know.")
    with pytest.raises(Conflict, match="Choose the records yourself"):
        add_proposal(proposal=propose_from_assembly(message.assembly), actor="user:olga")


def test_an_assembly_without_a_known_answer_proposes_its_question_alone(space, talk) -> None:
    result = factories.make_assembly(space, query=PET)
    proposal = propose_from_assembly(Assembly.objects.get(pk=result.id))
    assert (proposal.text, proposal.record_ids) == (PET, ())
    assert AssemblyIn(space=space.slug, query=proposal.text)
