"""Reserves, judges and gives back items for reviewers. No slot is judged twice or lost."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import Case, Exists, IntegerField, OuterRef, Q, Value, When
from django.utils import timezone

from contextopt.assemblies.models import AssemblyPayload
from contextopt.errors import Conflict, InvalidInput
from contextopt.locks import Lock, wait_turn
from contextopt.people.audit import note_event
from contextopt.people.models import Team, User
from contextopt.spaces.models import Record
from contextopt.sql import find_one
from memory.feedback.models import RATER_MAX
from memory.review.inputs import VerdictIn
from memory.review.models import ItemState, ReviewItem, ReviewSlot
from memory.review.queue import settle_item

RESERVED_FOR = timedelta(minutes=10)

log = structlog.get_logger(__name__)


def find_item(team: Team, item_id: int) -> ReviewItem:
    """Return the team's item with its subject.

    Raises:
        NotFound: the team has no such item.
    """
    rows = ReviewItem.objects.of(team).select_related(
        "assembly__space", "message__reply_to", "external_message", "space", "assigned_to"
    )
    return find_one(rows.filter(pk=item_id), f"review {item_id}")


@transaction.atomic
def reserve_next(*, team: Team, reviewer: str, skip: Sequence[int] = ()) -> ReviewSlot | None:
    """Reserve a slot of the next item for the reviewer; return None if nothing waits for them.

    The order is: their own reservations, items assigned to them, downvoted answers, the sample; within each
    the oldest first. Reviewers who ask at the same moment get different slots.
    """
    _take_turn(team, reviewer)
    now = timezone.now()
    own = ReviewSlot.objects.filter(item__team=team, reviewer=reviewer)
    left = own.filter(verdict="", item__state=ItemState.OPEN).exclude(item__in=skip)
    slot = left.select_for_update(of=("self",), no_key=True).order_by("id").first()
    slot = slot or _lock_free(team, reviewer, now, skip)
    return None if slot is None else _reserve(slot, reviewer, now)


@transaction.atomic
def reserve_item(*, item: ReviewItem, reviewer: str) -> ReviewSlot:
    """Reserve a slot of this item, or extend the reviewer's reservation.

    Raises:
        Conflict: others have all its slots, it is assigned to someone else, or nothing is left to judge.
    """
    _take_turn(item.team, reviewer)
    now = timezone.now()
    current = _hold(item)
    own = current.slots.filter(reviewer=reviewer).first()
    if own is not None and own.verdict:
        raise Conflict("You have already given a verdict on this item.")
    if current.state != ItemState.OPEN:
        raise Conflict("This item needs no more verdicts.")
    _check_assignment(current, reviewer)
    slot = (
        own
        or current.slots.takeable(now).select_for_update(of=("self",), no_key=True).order_by("number").first()
    )
    if slot is None:
        raise Conflict("This item is reserved for other reviewers.")
    return _reserve(slot, reviewer, now)


@transaction.atomic
def release_item(*, item: ReviewItem, reviewer: str) -> bool:
    """Give the reviewer's reservation back; return whether there was one."""
    own = ReviewSlot.objects.filter(item=item, reviewer=reviewer, verdict="")
    return bool(own.update(reviewer="", reserved_until=None))


@transaction.atomic
def give_verdict(*, item: ReviewItem, reviewer: str, data: VerdictIn) -> ReviewSlot:
    """Store the reviewer's verdict, replacing their previous one.

    An expired reservation does not matter while a slot is left.

    Raises:
        Conflict: others have all slots, or have judged it too, so that a change could follow their verdict.
        InvalidInput: a record does not belong to the assembly.
    """
    _take_turn(item.team, reviewer)
    current = _hold(item)
    _check_records(current, data.record_ids)
    slot = current.slots.filter(reviewer=reviewer).first()
    if slot is None or not slot.verdict:
        slot = reserve_item(item=current, reviewer=reviewer)
    else:
        _check_unseen(current, reviewer)
    slot.verdict, slot.note, slot.record_ids = data.verdict, data.note, list(dict.fromkeys(data.record_ids))
    slot.judged_at, slot.reserved_until = timezone.now(), None
    slot.save(update_fields=["verdict", "note", "record_ids", "judged_at", "reserved_until"])
    settle_item(current)
    log.info("review_verdict", item_id=current.pk, verdict=slot.verdict, number=slot.number)
    return slot


@transaction.atomic
def withdraw_verdict(*, item: ReviewItem, reviewer: str) -> ReviewSlot:
    """Take the reviewer's verdict back and reserve the slot for them again.

    Raises:
        Conflict: they have given none, or others have judged it too.
    """
    current = _hold(item)
    slot = current.slots.judged().filter(reviewer=reviewer).first()
    if slot is None:
        raise Conflict("You have not given a verdict on this item.")
    _check_unseen(current, reviewer)
    slot.verdict, slot.note, slot.record_ids, slot.judged_at = "", "", [], None
    slot.reserved_until = timezone.now() + RESERVED_FOR
    slot.save(update_fields=["verdict", "note", "record_ids", "judged_at", "reserved_until"])
    settle_item(current)
    return slot


@transaction.atomic
def assign_item(*, item: ReviewItem, username: str | None, actor: str) -> ReviewItem:
    """Assign the item to one member, which ends others' reservations, or to nobody in particular.

    Raises:
        InvalidInput: nobody of that name may review for the team.
    """
    current = _hold(item)
    person = _find_person(current.team, username) if username else None
    before = current.assigned_to.get_username() if current.assigned_to else None
    if before == username:
        return current
    current.assigned_to = person
    current.save(update_fields=["assigned_to"])
    if person is not None:
        reserved = current.slots.filter(verdict="").exclude(reviewer=reviewer_of(person))
        reserved.update(reviewer="", reserved_until=None)
    note_event(
        team_id=current.team_id,
        actor=actor,
        action="review.assigned",
        subject=f"review {current.pk}",
        before={"to": before},
        after={"to": username},
    )
    return current


def reviewer_of(user: User) -> str:
    """Return a user's name as slots store it."""
    return f"user:{user.get_username()}"[:RATER_MAX]


def visible_verdicts(item: ReviewItem, reviewer: str) -> list[ReviewSlot]:
    """Return the verdicts that the reviewer may see: others' only after their own, or once all are in."""
    given = list(item.slots.judged().order_by("judged_at", "id"))
    has_judged = any(slot.reviewer == reviewer for slot in given)
    return given if has_judged or item.state == ItemState.DONE else []


def _find_person(team: Team, username: str) -> User:
    member = team.memberships.select_related("user").filter(user__username=username).exclude(role="viewer")
    found = member.first()
    if found is None:
        raise InvalidInput.of("username", "is not a member who can review")
    return found.user


def _take_turn(team: Team, reviewer: str) -> None:
    """Make one reviewer's requests wait for each other: two tabs must not take two slots of one item."""
    wait_turn(Lock.REVIEWER, team.pk, reviewer)


def _hold(item: ReviewItem) -> ReviewItem:
    """Lock the item, so that verdicts on it are counted one after the other."""
    found = ReviewItem.objects.select_for_update(of=("self",), no_key=True).select_related(
        "team", "assigned_to"
    )
    return find_one(found.filter(pk=item.pk), f"review {item.pk}")


def _lock_free(team: Team, reviewer: str, now: datetime, skip: Sequence[int]) -> ReviewSlot | None:
    """Lock the first slot that the reviewer may take, skipping slots that others have locked."""
    touched = ReviewSlot.objects.filter(item=OuterRef("item"), reviewer=reviewer)
    rows = ReviewSlot.objects.takeable(now).filter(~Exists(touched), item__team=team)
    rows = rows.filter(_assigned(reviewer)).exclude(item__in=skip)
    rank = Case(
        When(item__assigned_to__isnull=False, then=Value(0)), default=Value(1), output_field=IntegerField()
    )
    order = (rank, "item__origin", "item__created_at", "item_id", "number")
    return rows.select_for_update(skip_locked=True, of=("self",), no_key=True).order_by(*order).first()


def _assigned(reviewer: str) -> Q:
    """Match items that are not assigned to someone else."""
    kind, _, name = reviewer.partition(":")
    free = Q(item__assigned_to=None)
    return free | Q(item__assigned_to__username=name) if kind == "user" else free


def _check_assignment(item: ReviewItem, reviewer: str) -> None:
    if item.assigned_to is not None and reviewer_of(item.assigned_to) != reviewer:
        raise Conflict(f"This item is assigned to {item.assigned_to.get_username()}.")


def _check_unseen(item: ReviewItem, reviewer: str) -> None:
    """Refuse a change by someone who may have seen others' verdicts."""
    if item.slots.judged().exclude(reviewer=reviewer).exists():
        raise Conflict(
            "Others have given verdicts that you may have seen, so yours can no longer be changed."
        )


def _check_records(item: ReviewItem, record_ids: list[int]) -> None:
    if not record_ids:
        return
    payloads = AssemblyPayload.objects.filter(assembly=item.assembly_id)
    known = payloads.values_list("record_ids", flat=True).first() or []
    further = set(record_ids) - set(known)
    # A missing record may never have been a candidate.
    of_space = Record.objects.filter(pk__in=further, space=item.space_id, deleted_at=None)
    if strange := further - set(of_space.values_list("pk", flat=True)):
        missing = f"record {min(strange)} is neither in this assembly nor in its space"
        raise InvalidInput.of("record_ids", missing)


def _reserve(slot: ReviewSlot, reviewer: str, now: datetime) -> ReviewSlot:
    slot.reviewer, slot.reserved_until = reviewer, now + RESERVED_FOR
    slot.save(update_fields=["reviewer", "reserved_until"])
    return slot
