"""Review: entering the queue, giving verdicts, and seeing the verdicts of others."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.chat.models import Message
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.people.models import AuditEvent, Role, Team, User
from contextopt.spaces.models import Space
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.models import ExternalMessage
from memory.feedback.votes import give_feedback, withdraw_feedback
from memory.review.inputs import RulesPatch, VerdictIn
from memory.review.models import ItemState, Origin, ReviewItem, ReviewSlot
from memory.review.queue import (
    BATCH,
    add_items,
    fill_queue,
    refresh_assembly,
    resize_items,
    rules_of,
    set_rules,
)
from memory.review.reservations import (
    assign_item,
    find_item,
    give_verdict,
    release_item,
    reserve_item,
    reserve_next,
    visible_verdicts,
    withdraw_verdict,
)
from tests import factories
from tests.memory.factories import make_review

ANN, BEN, CAI = "user:ann", "user:ben", "user:cai"
CUT = VerdictIn(verdict="context_cut")


def dislike(team: Team, rater: str = "rater:a", **subject: Any) -> None:
    opinion = OpinionIn(rating="down", reason="wrong")
    give_feedback(team=team, subject=SubjectIn(**subject), opinion=opinion, rater=rater)


def rules(team: Team, **changes: Any) -> None:
    set_rules(team=team, changes=RulesPatch(**changes), actor="user:olga")


@pytest.fixture
def item(space: Space) -> ReviewItem:
    return make_review(space)


# The queue


def test_a_thumb_down_enters_the_queue_and_one_taken_back_leaves_it(
    team: Team, space: Space, django_capture_on_commit_callbacks: Any
) -> None:
    assembly = factories.make_assembly(space)
    subject = SubjectIn(assembly_id=assembly.id)
    with django_capture_on_commit_callbacks(execute=True):
        give_feedback(team=team, subject=subject, opinion=OpinionIn(rating="up"), rater="rater:a")
    assert not ReviewItem.objects.exists()
    with django_capture_on_commit_callbacks(execute=True):
        dislike(team, assembly_id=assembly.id)
    item = ReviewItem.objects.get()
    assert (item.assembly_id, item.origin, item.state, item.slots.count()) == (
        assembly.id, "disliked", "open", 1
    )  # fmt: skip
    with django_capture_on_commit_callbacks(execute=True):
        withdraw_feedback(team=team, subject=subject, rater="rater:a")
    item.refresh_from_db()
    assert item.state == ItemState.WITHDRAWN
    assert reserve_next(team=team, reviewer=ANN) is None
    with django_capture_on_commit_callbacks(execute=True):
        dislike(team, assembly_id=assembly.id)
    item.refresh_from_db()
    assert item.state == ItemState.OPEN


def test_a_judged_item_stays_whatever_becomes_of_the_vote(team: Team, item: ReviewItem) -> None:
    rules(team, verdicts_wanted=2)
    give_verdict(item=item, reviewer=ANN, data=CUT)
    withdraw_feedback(team=team, subject=SubjectIn(assembly_id=item.assembly_id), rater="rater:a")
    refresh_assembly(team_id=team.pk, assembly_id=item.assembly_id)
    item.refresh_from_db()
    assert (item.state, item.verdicts) == ("open", 1)


def test_an_answer_has_one_item_whatever_names_it(team: Team, space: Space, settings: Any) -> None:
    answer: Message = factories.make_answer(factories.make_conversation(space), settings)
    dislike(team, "rater:a", message_id=answer.pk)
    dislike(team, "rater:b", assembly_id=answer.assembly_id)
    dislike(team, "rater:b", external_message_id="m-1", assembly_id=answer.assembly_id)
    for _ in range(2):
        fill_queue(team, now=timezone.now())
        refresh_assembly(team_id=team.pk, assembly_id=answer.assembly_id)
    items = ReviewItem.objects.order_by("id")
    assert {(i.message_id, i.external_message and i.external_message.external_id) for i in items} == {
        (answer.pk, None), (None, "m-1")
    }  # fmt: skip
    assert ReviewSlot.objects.count() == 2


def test_filling_heals_what_was_not_heard(team: Team, space: Space, other_team: Team) -> None:
    for number in range(3):
        dislike(team, assembly_id=factories.make_assembly(space).id, rater=f"rater:{number}")
    assert fill_queue(other_team, now=timezone.now()) == 0
    assert fill_queue(team, now=timezone.now()) == 3
    assert fill_queue(team, now=timezone.now()) == 0


def test_teams_may_leave_disliked_answers_out(team: Team, space: Space) -> None:
    rules(team, takes_disliked=False)
    dislike(team, assembly_id=factories.make_assembly(space).id)
    assert fill_queue(team, now=timezone.now()) == 0


def test_the_sample_is_the_same_whoever_takes_it(team: Team, space: Space) -> None:
    factories.make_assembly(space, created_at=timezone.now())
    rules(team, sample_share=0.25)
    for _ in range(40):
        factories.make_assembly(space, created_at=timezone.now())
    later = timezone.now() + timedelta(minutes=1)
    assert 7 <= fill_queue(team, now=later) <= 13
    chosen = set(ReviewItem.objects.values_list("assembly_id", flat=True))
    assert Assembly.objects.order_by("id").first().pk not in chosen
    assert set(ReviewItem.objects.values_list("origin", flat=True)) == {"sample"}
    assert fill_queue(team, now=later) == 0
    since = rules_of(team.pk).sampled_until
    ReviewItem.objects.all().delete()
    fill_queue(team, now=later + timedelta(minutes=1))
    assert set(ReviewItem.objects.values_list("assembly_id", flat=True)) == chosen
    # A period is not searched again once its last minutes are settled.
    fill_queue(team, now=later + timedelta(minutes=30))
    assert rules_of(team.pk).sampled_until > since


def test_a_sampled_item_that_is_disliked_comes_first(team: Team, space: Space) -> None:
    rules(team, sample_share=1)
    assemblies = [factories.make_assembly(space, created_at=timezone.now()).id for _ in range(3)]
    fill_queue(team, now=timezone.now() + timedelta(minutes=1))
    dislike(team, assembly_id=assemblies[2])
    refresh_assembly(team_id=team.pk, assembly_id=assemblies[2])
    assert ReviewItem.objects.count() == 3
    assert reserve_next(team=team, reviewer=ANN).item.assembly_id == assemblies[2]


# Reservations


def test_two_reviewers_never_get_the_same(team: Team, space: Space) -> None:
    items = [make_review(space) for _ in range(3)]
    first, second = reserve_next(team=team, reviewer=ANN), reserve_next(team=team, reviewer=BEN)
    assert (first.item_id, second.item_id) == (items[0].pk, items[1].pk)
    assert reserve_next(team=team, reviewer=ANN).item_id == items[0].pk
    assert reserve_next(team=team, reviewer=CAI, skip=[items[2].pk]) is None
    with pytest.raises(Conflict, match="This item is reserved for other reviewers"):
        reserve_item(item=items[0], reviewer=CAI)


def test_a_reservation_is_given_back_or_runs_out(team: Team, item: ReviewItem) -> None:
    reserve_next(team=team, reviewer=ANN)
    assert reserve_next(team=team, reviewer=BEN) is None
    assert release_item(item=item, reviewer=ANN)
    assert not release_item(item=item, reviewer=ANN)
    reserve_next(team=team, reviewer=BEN)
    with time_machine.travel(timezone.now() + timedelta(minutes=9)):
        assert reserve_next(team=team, reviewer=ANN) is None
        reserve_item(item=item, reviewer=BEN)
    with time_machine.travel(timezone.now() + timedelta(minutes=12)):
        assert reserve_next(team=team, reviewer=ANN) is None
    with time_machine.travel(timezone.now() + timedelta(minutes=20)):
        assert reserve_next(team=team, reviewer=ANN).item_id == item.pk
        with pytest.raises(Conflict):
            give_verdict(item=item, reviewer=BEN, data=CUT)


def test_a_late_verdict_counts_while_nobody_else_has_the_slot(team: Team, item: ReviewItem) -> None:
    reserve_next(team=team, reviewer=ANN)
    with time_machine.travel(timezone.now() + timedelta(hours=1)):
        assert give_verdict(item=item, reviewer=ANN, data=CUT).verdict == "context_cut"


def test_assigned_items_are_one_persons(team: Team, space: Space) -> None:
    first, second = make_review(space), make_review(space)
    factories.make_user("ben", team, Role.REVIEWER)
    factories.make_user("vic", team, Role.VIEWER)
    reserve_next(team=team, reviewer=ANN)
    assign_item(item=first, username="ben", actor="user:olga")
    assign_item(item=second, username="ben", actor="user:olga")
    assert reserve_next(team=team, reviewer=ANN) is None
    with pytest.raises(Conflict, match="assigned to ben"):
        reserve_item(item=first, reviewer=ANN)
    with pytest.raises(Conflict, match="assigned to ben"):
        give_verdict(item=first, reviewer="key:ben", data=CUT)
    assert reserve_next(team=team, reviewer=BEN).item_id == first.pk
    for nobody in ("vic", "nobody"):
        with pytest.raises(InvalidInput):
            assign_item(item=first, username=nobody, actor="user:olga")
    assign_item(item=second, username=None, actor="user:olga")
    assert reserve_next(team=team, reviewer=ANN).item_id == second.pk
    assert AuditEvent.objects.filter(action="review.assigned").count() == 3
    User.objects.get(username="ben").delete()
    assert ReviewItem.objects.get(pk=first.pk).assigned_to is None


# Verdicts


def test_a_verdict_closes_its_item(team: Team, space: Space) -> None:
    record = factories.make_record(space)
    item = make_review(space)
    data = VerdictIn(verdict="context_wrong", note="From last year.", record_ids=[record.pk, record.pk])
    slot = give_verdict(item=item, reviewer=ANN, data=data)
    assert (slot.record_ids, slot.reserved_until) == ([record.pk], None)
    item.refresh_from_db()
    assert (item.state, item.verdicts, item.done_at is not None) == ("done", 1, True)
    with pytest.raises(Conflict, match="no more verdicts"):
        give_verdict(item=item, reviewer=BEN, data=CUT)
    changed = give_verdict(item=item, reviewer=ANN, data=VerdictIn(verdict="model"))
    assert (changed.pk, changed.verdict, changed.record_ids) == (slot.pk, "model", [])


def test_a_verdict_is_taken_back(team: Team, item: ReviewItem) -> None:
    give_verdict(item=item, reviewer=ANN, data=CUT)
    slot = withdraw_verdict(item=item, reviewer=ANN)
    item.refresh_from_db()
    assert (slot.verdict, slot.reviewer, item.state, item.done_at) == ("", ANN, "open", None)
    with pytest.raises(Conflict):
        withdraw_verdict(item=item, reviewer=ANN)


def test_each_item_wants_several_verdicts_and_hides_them_until_ones_own(team: Team, space: Space) -> None:
    rules(team, verdicts_wanted=2)
    item = make_review(space)
    give_verdict(item=item, reviewer=ANN, data=CUT)
    item.refresh_from_db()
    assert (item.state, item.verdicts) == ("open", 1)
    assert visible_verdicts(item, BEN) == []
    assert [slot.reviewer for slot in visible_verdicts(item, ANN)] == [ANN]
    assert reserve_next(team=team, reviewer=ANN) is None
    give_verdict(item=item, reviewer=BEN, data=VerdictIn(verdict="model"))
    item.refresh_from_db()
    assert item.state == "done"
    assert len(visible_verdicts(item, CAI)) == 2
    # A reviewer who may have seen the others' verdicts cannot change their own.
    for act in (
        lambda: give_verdict(item=item, reviewer=ANN, data=CUT),
        lambda: withdraw_verdict(item=item, reviewer=ANN),
    ):
        with pytest.raises(Conflict, match="can no longer be changed"):
            act()


def test_a_missing_record_need_not_have_been_a_candidate(space: Space, item: ReviewItem) -> None:
    later = factories.make_record(space)
    slot = give_verdict(
        item=item, reviewer=ANN, data=VerdictIn(verdict="context_missing", record_ids=[later.pk])
    )
    assert slot.record_ids == [later.pk]


def test_records_are_of_the_assembly_or_its_space(
    team: Team, space: Space, other_team: Team, item: ReviewItem
) -> None:
    theirs = factories.make_record(factories.make_space(other_team))
    with pytest.raises(InvalidInput, match="neither in this assembly nor in its space"):
        give_verdict(item=item, reviewer=ANN, data=VerdictIn(verdict="model", record_ids=[theirs.pk]))
    assert not ReviewSlot.objects.exclude(verdict="").exists()


def test_others_find_nothing(other_team: Team, item: ReviewItem) -> None:
    with pytest.raises(NotFound):
        find_item(other_team, item.pk)
    assert reserve_next(team=other_team, reviewer=ANN) is None


# Rules


def test_open_items_follow_the_rules(team: Team, space: Space) -> None:
    judged, reserved, free = (make_review(space) for _ in range(3))
    rules(team, verdicts_wanted=3)
    assert ReviewSlot.objects.count() == 9
    give_verdict(item=judged, reviewer=ANN, data=CUT)
    reserve_item(item=reserved, reviewer=ANN)
    reserve_item(item=reserved, reviewer=BEN)
    rules(team, verdicts_wanted=1)
    assert {item: item.slots.count() for item in (judged, reserved, free)} == {
        judged: 1,
        reserved: 2,
        free: 1,
    }
    judged.refresh_from_db()
    assert judged.state == "done"


def test_a_long_queue_follows_the_rules_in_batches(team: Team, space: Space) -> None:
    assembly_id, now = factories.make_assembly(space).id, timezone.now()
    count = BATCH + 5
    messages = ExternalMessage.objects.bulk_create(
        ExternalMessage(team=team, assembly_id=assembly_id, external_id=str(number))
        for number in range(count)
    )
    items = [
        ReviewItem(team=team, assembly_id=assembly_id, external_message=each, space=space)
        for each in messages
    ]
    add_items(items, Origin.SAMPLE, rules_of(team.pk))
    with CaptureQueriesContext(connection) as captured:
        rules(team, verdicts_wanted=3)
    assert len(captured) < 20
    assert ReviewSlot.objects.count() == 3 * BATCH + 5
    fill_queue(team, now=now)
    assert ReviewSlot.objects.count() == 3 * count

    ends = ReviewItem.objects.order_by("pk").first(), ReviewItem.objects.order_by("pk").last()
    for item in filter(None, ends):
        give_verdict(item=item, reviewer=ANN, data=CUT)
    rules(team, verdicts_wanted=1)
    assert ReviewSlot.objects.count() == BATCH + 3 * 5
    fill_queue(team, now=now)
    assert ReviewSlot.objects.count() == count
    assert set(ReviewItem.objects.filter(state="done")) == set(ends)
    with CaptureQueriesContext(connection) as captured:
        assert resize_items(team, 1) == 0
    assert not any(query["sql"].startswith(("DELETE", "INSERT", "UPDATE")) for query in captured)


def test_changes_of_rules_are_written_down(team: Team) -> None:
    rules(team, sample_share=0.1)
    rules(team, sample_share=0.1)
    event = AuditEvent.objects.get()
    assert (event.action, event.actor, event.before, event.after) == (
        "review.rules", "user:olga", {"sample_share": 0}, {"sample_share": 0.1}
    )  # fmt: skip
