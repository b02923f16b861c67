"""Votes rate the strategies that the answer was made with, in one write with the vote."""

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from contextopt.agents.models import Attempt
from contextopt.limits import ACTOR_MAX
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.models import RATER_MAX, Vote
from memory.feedback.votes import give_feedback, rate_strategies, withdraw_feedback
from memory.memories.models import Memory
from memory.steps.inputs import AgentStepIn
from memory.steps.step import build_step
from tests import factories
from tests.concurrency import PATIENCE_SECONDS, beside, somebody_waits, wait_until
from tests.fulldisk import lacking_room
from tests.memory.factories import make_strategy, make_use


@pytest.fixture
def vote(team: Team, django_capture_on_commit_callbacks: Any):
    """Vote and run the listeners; an empty rating withdraws the vote."""

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


def test_a_use_of_the_task_counts_for_its_contexts(team: Team, strategy: Memory, vote) -> None:
    task = factories.make_task(team)
    use = make_use(strategy, task=task)
    data = AgentStepIn(task_id=task.pk, phase="building")
    step = build_step(team=team, data=data, actor="test")
    assert step.assembly is not None
    vote(step.assembly.pk, "down")
    use.refresh_from_db()
    assert use.rating == 0


def test_the_votes_on_all_contexts_of_a_task_count(team: Team, strategy: Memory, vote) -> None:
    task = factories.make_task(team)
    use = make_use(strategy, task=task)
    made = [
        build_step(team=team, data=AgentStepIn(task_id=task.pk, phase="building"), actor="test").assembly
        for _ in range(2)
    ]
    first, second = (each.pk for each in made if each is not None)

    def rating() -> float | None:
        use.refresh_from_db()
        return use.rating

    vote(first, "up")
    vote(second, "down")
    assert rating() == 0.5
    vote(second, "")
    assert rating() == 1
    vote(first, "")
    assert rating() is None


def test_a_rater_may_have_a_longer_name_than_an_actor(space: Space, strategy: Memory, vote) -> None:
    assembly = factories.make_assembly(space)
    use = make_use(strategy, assembly_id=assembly.id)
    vote(assembly.id, "up", "rater:".ljust(RATER_MAX, "a"))
    use.refresh_from_db()
    assert use.rated_by == "rater:".ljust(ACTOR_MAX, "a")


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
        # A vote stored while the other listener waits, whose own listener has already run.
        other.pk, other.rater, other.rating = None, "rater:b", "down"
        other.save(force_insert=True)
    late.result(PATIENCE_SECONDS)
    use.refresh_from_db()
    assert use.rating == 0.5


def test_a_vote_whose_rating_fails_is_not_stored_and_can_be_given_again(
    space: Space, strategy: Memory, vote
) -> None:
    assembly = factories.make_assembly(space)
    use = make_use(strategy, assembly_id=assembly.id)
    before = strategy.trust
    with lacking_room("memory_trustchange"), pytest.raises(OperationalError), transaction.atomic():
        vote(assembly.id, "down")
    assert not Vote.objects.exists()
    vote(assembly.id, "down")
    use.refresh_from_db()
    strategy.refresh_from_db()
    assert (use.rating, strategy.trust < before) == (0, True)


VOTE = """
import sys, django
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
django.setup()
from contextopt.people.models import Team
from memory.feedback.votes import give_feedback
from memory.feedback.inputs import OpinionIn, SubjectIn
subject = SubjectIn(assembly_id=int(sys.argv[2]))
give_feedback(team=Team.objects.get(), subject=subject, opinion=OpinionIn(rating="down"), rater="rater:a")
"""
CHILD = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
# The change of trust waits for a lock that the test holds, and the voter is killed there.
WAIT_AT_TRUST = """
CREATE FUNCTION wait_at_trust() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END $$;
CREATE TRIGGER wait_at_trust BEFORE INSERT ON memory_trustchange
    FOR EACH ROW EXECUTE FUNCTION wait_at_trust();
"""
GO_ON = "DROP TRIGGER wait_at_trust ON memory_trustchange; DROP FUNCTION wait_at_trust()"


def test_a_voter_who_is_killed_between_vote_and_trust_leaves_neither(transactional_db: None) -> None:
    team = factories.make_team()
    use = make_use(make_strategy(team), assembly_id=factories.make_assembly(factories.make_space(team)).id)
    with connection.cursor() as cursor:
        cursor.execute(WAIT_AT_TRUST, None)
        cursor.execute("SELECT pg_advisory_lock(4711)")
        name = connection.settings_dict["NAME"]
        voter = subprocess.Popen([sys.executable, "-c", VOTE, name, str(use.assembly_id)], env=CHILD)
        wait_until(lambda: somebody_waits() or voter.poll() is not None)
        voter.kill()
        assert voter.wait() == -signal.SIGKILL
        cursor.execute("SELECT pg_advisory_unlock(4711)")
        wait_until(nobody_is_at_work)
        cursor.execute(GO_ON, None)
    use.refresh_from_db()
    assert (Vote.objects.exists(), use.rating) == (False, None)
    subject = SubjectIn(assembly_id=use.assembly_id)
    give_feedback(team=team, subject=subject, opinion=OpinionIn(rating="down"), rater="rater:a")
    use.refresh_from_db()
    assert (Vote.objects.count(), use.rating) == (1, 0)


def nobody_is_at_work() -> bool:
    """Return whether no other connection is in a transaction: the killed one's was rolled back."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND backend_type = 'client backend')"
        )
        return bool(cursor.fetchone()[0])
