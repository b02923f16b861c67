"""The quality beside a saving: verdicts that blame the context, and tasks that were completed."""

from datetime import datetime, timedelta

import pytest

from contextopt.agents.models import Task
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from dashboard.kit.charts.tiles import Proportion
from dashboard.pages.overview.quality import Quality, read_feedback, read_quality
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.models import Vote
from memory.feedback.votes import give_feedback
from memory.review.inputs import VerdictIn
from memory.review.models import ReviewItem
from memory.review.reservations import give_verdict, reserve_next
from tests import factories
from tests.dashboard.pages.overview.test_figures import ask
from tests.factories import NOW
from tests.memory.factories import make_review

THIS_PERIOD, PERIOD_BEFORE, LONG_AGO = (NOW - timedelta(days=days) for days in (1, 20, 40))


def judge(space: Space, verdict: str, at: datetime, **overrides: object) -> None:
    item = make_review(space, **overrides)
    assert reserve_next(team=space.team, reviewer="user:ann") is not None
    give_verdict(item=item, reviewer="user:ann", data=VerdictIn(verdict=verdict))
    ReviewItem.objects.filter(pk=item.pk).update(created_at=at)


def end_task(team: Team, state: str, at: datetime, *, retries: int = 0) -> None:
    task = factories.make_task(team)
    for _ in range(retries):
        factories.make_attempt(task)
    Task.objects.filter(pk=task.pk).update(state=state, created_at=at)


@pytest.mark.parametrize(
    ("verdict", "faults"),
    [("context_missing", 1), ("context_cut", 1), ("context_wrong", 1), ("model", 0), ("no_problem", 0)],
)
def test_faults_are_verdicts_that_blame_the_context(space: Space, verdict: str, faults: int) -> None:
    judge(space, verdict, THIS_PERIOD)
    now, before = read_quality(ask(space.team))
    assert now == Quality(faults=Proportion(faults, 1))
    assert before == Quality()


def test_each_period_has_its_own_verdicts(space: Space) -> None:
    for moment in (THIS_PERIOD, PERIOD_BEFORE, PERIOD_BEFORE, LONG_AGO):
        judge(space, "context_missing", moment)
    now, before = read_quality(ask(space.team))
    assert (now.faults, before.faults) == (Proportion(1, 1), Proportion(2, 2))


def test_filters_narrow_verdicts(space: Space) -> None:
    judge(space, "context_missing", THIS_PERIOD)
    other = factories.make_space(space.team, "other")
    judge(other, "model", THIS_PERIOD, stage=3)
    for narrowed, faults in (
        ({}, Proportion(1, 2)),
        ({"space_id": space.pk}, Proportion(1, 1)),
        ({"stage": 3}, Proportion(0, 1)),
        ({"kind": "space"}, Proportion(1, 2)),
        ({"kind": "retry"}, Proportion()),
        ({"model": "gpt-9"}, Proportion()),
    ):
        assert read_quality(ask(space.team, **narrowed))[0].faults == faults, narrowed


def test_answers_to_audited_prompts_have_no_stage(space: Space) -> None:
    subject = SubjectIn(assembly_id=factories.make_audited_assembly(space).id)
    give_feedback(team=space.team, subject=subject, opinion=OpinionIn(rating="up"), rater="user:ann")
    Vote.objects.update(created_at=THIS_PERIOD)
    found = read_feedback(ask(space.team))
    assert found is not None
    assert (found.total, found.stages) == (Proportion(1, 1), {})
    for narrowed in ({"stage": 4}, {"config_version": 1}):
        found = read_feedback(ask(space.team, **narrowed))
        assert found is not None and found.total == Proportion()


def test_ended_tasks_are_counted_and_those_with_retries_apart(team: Team) -> None:
    end_task(team, "completed", THIS_PERIOD)
    end_task(team, "completed", THIS_PERIOD, retries=2)
    end_task(team, "failed", THIS_PERIOD, retries=1)
    end_task(team, "open", THIS_PERIOD, retries=1)
    end_task(team, "completed", PERIOD_BEFORE)
    now, before = read_quality(ask(team))
    assert (now.completed, now.retried) == (Proportion(2, 3), Proportion(1, 2))
    assert (before.completed, before.retried) == (Proportion(1, 1), Proportion())


def test_tasks_have_no_space_so_filters_leave_them_out(team: Team, space: Space) -> None:
    end_task(team, "completed", THIS_PERIOD)
    assert read_quality(ask(team, space_id=space.pk))[0].completed == Proportion()


def test_a_team_never_sees_anothers(team: Team, space: Space) -> None:
    judge(space, "context_missing", THIS_PERIOD)
    end_task(team, "completed", THIS_PERIOD)
    other = factories.make_team("other")
    assert read_quality(ask(other)) == (Quality(), Quality())


def test_one_query(space: Space, django_assert_num_queries) -> None:
    judge(space, "context_missing", THIS_PERIOD)
    with django_assert_num_queries(1):
        # verdicts and tasks of both periods
        read_quality(ask(space.team))
