"""What follows a vote: the trust of the strategies that the answer was made with."""

from typing import Any

import pytest
from django.db import transaction

from contextopt.models import Attempt, Space, Team
from memory.feedback import give_feedback, withdraw_feedback
from memory.feedbackinputs import OpinionIn, SubjectIn
from memory.listeners import rate_strategies
from memory.models import Memory, Vote
from tests import factories
from tests.concurrency import PATIENCE_SECONDS, beside, somebody_waits, wait_until
from tests.memory.factories import make_strategy, make_use


@pytest.fixture
def vote(team: Team, django_capture_on_commit_callbacks: Any):
    """Vote, and have those who listen hear of it; no rating takes the vote back."""

    def run(assembly_id: int, rating: str, rater: str = "rater:a") -> None:
        subject = SubjectIn(assembly_id=assembly_id)
        with django_capture_on_commit_callbacks(execute=True):
            if rating:
                give_feedback(team=team, subject=subject, opinion=OpinionIn(rating=rating), rater=rater)
            else:
                withdraw_feedback(team=team, subject=subject, rater=rater)

    return run


def test_votes_move_the_trust_of_the_strategy_used(space: Space, strategy: Memory, vote) -> None:
    assembly = factories.make_assembly(space)
    use = make_use(strategy, assembly_id=assembly.id)
    before = strategy.trust
    vote(assembly.id, "up")
    strategy.refresh_from_db()
    use.refresh_from_db()
    assert (use.rating, use.rated_by, strategy.trust > before) == (1, "rater:a", True)
    vote(assembly.id, "down", "rater:b")
    use.refresh_from_db()
    assert use.rating == 0.5
    vote(assembly.id, "", "rater:a")
    use.refresh_from_db()
    assert use.rating == 0
    vote(assembly.id, "", "rater:b")
    use.refresh_from_db()
    strategy.refresh_from_db()
    assert (use.rating, strategy.trust) == (None, before)


def test_a_use_of_the_task_counts_for_its_steps(team: Team, space: Space, strategy: Memory, vote) -> None:
    task = factories.make_task(team)
    factories.make_attempt(task)
    use = make_use(strategy, task=task)
    assembly_id = Attempt.objects.get(task=task).assembly_id
    assert assembly_id is not None
    vote(assembly_id, "down")
    use.refresh_from_db()
    assert use.rating == 0


def test_other_uses_are_left_alone(space: Space, strategy: Memory, vote) -> None:
    use = make_use(strategy, assembly_id=factories.make_assembly(space).id)
    vote(factories.make_assembly(space).id, "down")
    use.refresh_from_db()
    assert use.rating is None


def test_who_waits_counts_the_votes_of_whoever_was_first(transactional_db: None) -> None:
    team = factories.make_team()
    strategy = make_strategy(team)
    assembly = factories.make_assembly(factories.make_space(team))
    use = make_use(strategy, assembly_id=assembly.id)
    subject = SubjectIn(assembly_id=assembly.id)
    give_feedback(team=team, subject=subject, opinion=OpinionIn(rating="up"), rater="rater:a")
    other = Vote.objects.get()
    with transaction.atomic():
        Memory.objects.select_for_update(no_key=True).get(pk=strategy.pk)
        late = beside(lambda: rate_strategies(team_id=team.pk, assembly_id=assembly.id, rater="rater:a"))
        wait_until(somebody_waits)
        # A vote that is stored while the other listener waits, and whose own was heard before.
        other.pk, other.rater, other.rating = None, "rater:b", "down"
        other.save(force_insert=True)
    late.result(PATIENCE_SECONDS)
    use.refresh_from_db()
    assert use.rating == 0.5
