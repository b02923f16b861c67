"""Fills the review queue with downvoted answers and a sample of the rest. Running it twice is safe."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import BigIntegerField, Exists, F, Func, OuterRef, Q, QuerySet
from django.utils import timezone

from contextopt.assemblies.models import Assembly, Kind
from contextopt.chat.models import Author, Message
from contextopt.people.audit import note_event
from contextopt.people.models import Team
from memory.feedback.models import Rating, Vote
from memory.review.inputs import RulesPatch
from memory.review.models import ItemState, Origin, ReviewItem, ReviewRules, ReviewSlot

BATCH = 1_000
# Batches of open items that one run of the job adapts to changed rules.
RESIZED_BATCHES = 3
# Every assembly is committed within this time of its `created_at`.
SETTLED_AFTER = timedelta(minutes=10)
# Multiplying by 2³² over the golden ratio spreads successive ids evenly over 32 bits. Source: D. Knuth, The
# Art of Computer Programming, volume 3, section 6.4.
WIDTH = 2**32
SPREAD_ID = Func(
    F("id"),
    template=f"mod(mod(%(expressions)s, {2**31}) * 2654435769, {WIDTH})",
    output_field=BigIntegerField(),
)

log = structlog.get_logger(__name__)


def rules_of(team_id: int) -> ReviewRules:
    """Return the team's rules, or the defaults if it has none."""
    return ReviewRules.objects.filter(team_id=team_id).first() or ReviewRules(team_id=team_id)


@transaction.atomic
def set_rules(*, team: Team, changes: RulesPatch, actor: str) -> ReviewRules:
    """Change the given rules. Open items then want the new number of verdicts.

    One batch of items gets its slots at once; `fill_queue` adapts the rest of a long queue.
    """
    team.lock()
    rules = rules_of(team.pk)
    given = changes.model_dump(exclude_unset=True)
    before = {name: getattr(rules, name) for name in given}
    if given == before:
        return rules
    if not rules.sample_share and given.get("sample_share"):
        rules.sampled_until = timezone.now()
    for name, value in given.items():
        setattr(rules, name, value)
    rules.save()
    note_event(
        team_id=team.pk, actor=actor, action="review.rules", subject="review", before=before, after=given
    )
    if "verdicts_wanted" in given:
        resize_items(team, rules.verdicts_wanted)
    return rules


@transaction.atomic
def resize_items(team: Team, wanted: int) -> int:
    """Give a batch of open items the wanted number of slots; return how many items had another.

    Slots that someone has reserved or judged are never taken away.
    """
    items = list(_misfits(team, wanted).order_by("pk").select_for_update(of=("self",), no_key=True)[:BATCH])
    ReviewSlot.objects.filter(item__in=items, number__gt=wanted, reviewer="").delete()
    _add_slots([item.pk for item in items], wanted)
    for item in items:
        # An item without verdicts stays open however many slots it has.
        if item.verdicts:
            settle_item(item)
    return len(items)


def _misfits(team: Team, wanted: int) -> QuerySet[ReviewItem]:
    slots = ReviewSlot.objects.filter(item=OuterRef("pk"))
    is_misfit = Q(Exists(slots.filter(number__gt=wanted, reviewer="")))
    for number in range(1, wanted + 1):
        is_misfit |= Q(~Exists(slots.filter(number=number)))
    return ReviewItem.objects.of(team).filter(is_misfit, state=ItemState.OPEN)


def fill_queue(team: Team, *, now: datetime) -> int:
    """Bring the queue in line with the team's rules, within one run's limits; return how many items were
    added.
    """
    rules = rules_of(team.pk)
    for _ in range(RESIZED_BATCHES):
        if resize_items(team, rules.verdicts_wanted) < BATCH:
            break
    added = _add_downvoted(team, rules) if rules.takes_disliked else 0
    if rules.sample_share:
        added += _add_sample(team, rules, now)
    if added:
        log.info("review_queue_filled", team_id=team.pk, added=added)
    return added


def refresh_assembly(*, team_id: int, assembly_id: int) -> None:
    """Bring the queue in line with the votes on one assembly's answers."""
    rules = rules_of(team_id)
    votes = Vote.objects.filter(team_id=team_id, assembly_id=assembly_id, rating=Rating.DOWN)
    if rules.takes_disliked:
        add_items(_downvoted(votes), Origin.DISLIKED, rules)
    _withdraw_unjudged(team_id, assembly_id)


def _add_downvoted(team: Team, rules: ReviewRules) -> int:
    """Add downvoted answers that the listener missed, for example because the process died after the vote."""
    items = ReviewItem.objects.filter(assembly=OuterRef("assembly"))
    same_answer = items.filter(external_message=OuterRef("external_message"))
    same_assembly = items.filter(external_message=None)
    votes = Vote.objects.of(team).filter(rating=Rating.DOWN)
    missing = votes.filter(~Exists(same_answer), external_message__isnull=False) | votes.filter(
        ~Exists(same_assembly), external_message=None
    )
    return add_items(_downvoted(missing.order_by("created_at", "id")[:BATCH]), Origin.DISLIKED, rules)


def _downvoted(votes: QuerySet[Vote]) -> list[ReviewItem]:
    found = votes.select_related("assembly__config", "message")
    return [_item(vote.assembly, vote.message, vote.external_message_id) for vote in found]


def _add_sample(team: Team, rules: ReviewRules, now: datetime) -> int:
    """Add assemblies chosen by a hash of their id, so that every run chooses the same ones."""
    start = rules.sampled_until
    threshold = round(rules.sample_share * WIDTH)
    found = list(
        Assembly.objects.of(team)
        .filter(created_at__gte=start, created_at__lt=now, kind=Kind.SPACE, is_demo=False)
        .annotate(place=SPREAD_ID)
        .filter(~Exists(ReviewItem.objects.filter(assembly=OuterRef("pk"))), place__lt=threshold)
        .select_related("config")
        .order_by("created_at", "id")[:BATCH]
    )
    answers = {
        message.assembly_id: message
        for message in Message.objects.filter(assembly__in=found, author=Author.ASSISTANT)
    }
    added = add_items([_item(row, answers.get(row.pk), None) for row in found], Origin.SAMPLE, rules)
    # Rows of slow transactions may still appear with earlier times, so read the last minutes again.
    settled = found[-1].created_at if len(found) == BATCH else max(start, now - SETTLED_AFTER)
    ReviewRules.objects.filter(team=team).update(sampled_until=settled)
    return added


def _item(assembly: Assembly, message: Message | None, external_id: int | None) -> ReviewItem:
    return ReviewItem(
        team_id=assembly.team_id,
        assembly=assembly,
        message=message,
        external_message_id=external_id,
        space_id=assembly.space_id,
        stage=assembly.stage,
        config_version=assembly.config_version,
    )


@transaction.atomic
def add_items(items: Iterable[ReviewItem], origin: Origin, rules: ReviewRules) -> int:
    """Add missing items, each with its slots. Existing items that are now downvoted are marked so."""
    wanted = list({(item.assembly_id, item.external_message_id): item for item in items}.values())
    for item in wanted:
        item.origin = origin
    ReviewItem.objects.bulk_create(wanted, ignore_conflicts=True)
    assemblies = [item.assembly_id for item in wanted]
    keys = {(item.assembly_id, item.external_message_id) for item in wanted}
    held = ReviewItem.objects.select_for_update(no_key=True).filter(assembly__in=assemblies).order_by("pk")
    stored = [item for item in held if (item.assembly_id, item.external_message_id) in keys]
    fresh = _slotless(stored)
    _add_slots(fresh, rules.verdicts_wanted)
    if origin == Origin.DISLIKED:
        _revive(stored, wanted)
    return len(fresh)


def _slotless(items: list[ReviewItem]) -> list[int]:
    with_slots = set(ReviewSlot.objects.filter(item__in=items).values_list("item_id", flat=True))
    return [item.pk for item in items if item.pk not in with_slots]


def _add_slots(item_ids: list[int], wanted: int) -> None:
    slots = [ReviewSlot(item_id=pk, number=n) for pk in item_ids for n in range(1, wanted + 1)]
    ReviewSlot.objects.bulk_create(slots, ignore_conflicts=True, batch_size=BATCH)


def _revive(stored: list[ReviewItem], wanted: list[ReviewItem]) -> None:
    """Mark existing items as downvoted, reopen withdrawn ones, and add answers that have arrived since."""
    messages = {(item.assembly_id, item.external_message_id): item.message_id for item in wanted}
    for item in stored:
        before = (item.origin, item.state, item.message_id)
        item.origin = Origin.DISLIKED
        item.message_id = item.message_id or messages[item.assembly_id, item.external_message_id]
        if item.state == ItemState.WITHDRAWN:
            item.state = ItemState.OPEN
        if before != (item.origin, item.state, item.message_id):
            item.save(update_fields=["origin", "state", "message"])


@transaction.atomic
def _withdraw_unjudged(team_id: int, assembly_id: int) -> None:
    """Withdraw items without a verdict whose downvotes are all gone."""
    items = ReviewItem.objects.select_for_update(no_key=True).filter(
        team_id=team_id, assembly_id=assembly_id, origin=Origin.DISLIKED, state=ItemState.OPEN, verdicts=0
    )
    for item in items.order_by("pk"):
        votes = Vote.objects.filter(assembly_id=assembly_id, rating=Rating.DOWN)
        if not votes.filter(external_message=item.external_message_id).exists():
            item.state = ItemState.WITHDRAWN
            item.save(update_fields=["state"])
            ReviewSlot.objects.filter(item=item).update(reviewer="", reserved_until=None)


def settle_item(item: ReviewItem) -> None:
    """Recount an item's verdicts, and close or open it. The caller holds the item's row."""
    slots = list(item.slots.all())
    judged = sum(bool(slot.verdict) for slot in slots)
    is_done = bool(slots) and judged == len(slots)
    item.verdicts = judged
    if item.state != ItemState.WITHDRAWN or judged:
        item.state = ItemState.DONE if is_done else ItemState.OPEN
    item.done_at = (item.done_at or timezone.now()) if is_done else None
    item.save(update_fields=["verdicts", "state", "done_at"])
