import pytest

from memory.backtests.backtests import BACKTESTS, read_evidence, start_backtest
from memory.backtests.figures import figures_of
from memory.backtests.inputs import BacktestIn
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.votes import give_feedback
from memory.review.inputs import VerdictIn
from memory.review.reservations import give_verdict
from tests.memory.factories import make_review
from tests.memory.questions.conftest import ASKED, make_questions

pytestmark = pytest.mark.django_db


def vote(assembly, rating, answer="", rater="rater:1") -> None:
    subject = SubjectIn(external_message_id=f"answer-{assembly.pk}", assembly_id=assembly.pk)
    opinion = OpinionIn(rating=rating)
    give_feedback(team=assembly.team, subject=subject, opinion=opinion, rater=rater, answer=answer)


def test_records_that_an_upvoted_answer_used_matter(space, asked, talk) -> None:
    vote(asked[0], "up", "She adopted a grey cat named Pixel from the shelter on Oslo Street.")
    assert read_evidence(space, asked) == {asked[0].pk: {talk[0].pk}}
    vote(asked[0], "down", rater="rater:2")
    assert not any(read_evidence(space, asked).values())


def test_records_that_a_reviewer_missed_matter(space, talk) -> None:
    item = make_review(space, query="Which pet did Ada adopt?")
    assert not any(read_evidence(space, [item.assembly]).values())
    verdict = VerdictIn(verdict="context_missing", record_ids=[talk[1].pk])
    give_verdict(item=item, reviewer="user:olga", data=verdict)
    assert read_evidence(space, [item.assembly]) == {item.assembly_id: {talk[1].pk}}


def test_records_of_a_question_with_the_same_words_matter(space, asked, talk) -> None:
    make_questions(space)
    found = read_evidence(space, asked)
    records = {record.external_id: record.pk for record in talk}
    assert [found[each.pk] for each in asked] == [{records[ids[0]]} for _, _, ids, _ in ASKED]


def test_a_backtest_says_what_is_kept_and_what_is_lost(space, asked, draft, talk) -> None:
    make_questions(space)
    backtest = start_backtest(space=space, data=BacktestIn(config=draft.version), actor="test")
    BACKTESTS.complete(backtest)
    found = figures_of(backtest)
    assert (found.evidence, found.evidence_before) == (4, 4)
    for row in backtest.rows.all():
        assert row.evidence_after == row.evidence_before - len(row.lost)
        assert set(row.lost) == set(row.evidence) & set(row.removed)
    assert found.evidence_kept == 4 - sum(len(row.lost) for row in backtest.rows.all())
