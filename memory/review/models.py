"""Reviews: people judge an answer beside the context that produced it."""

from datetime import datetime
from typing import ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.chat.models import Message
from contextopt.people.models import Team, User
from contextopt.spaces.models import Space
from memory.feedback.models import RATER_MAX, ExternalMessage, SubjectQuerySet

VERDICTS_MAX = 3
NOTE_MAX = 2_000
RECORDS_MAX = 50


class Verdict(models.TextChoices):
    """A reviewer's verdict, in the order of the keys 1 to 6."""

    CONTEXT_MISSING = "context_missing", "Context missing"
    CONTEXT_CUT = "context_cut", "Context cut too short"
    CONTEXT_WRONG = "context_wrong", "Context wrong or stale"
    MODEL = "model", "The model's fault"
    NO_PROBLEM = "no_problem", "Not a problem"
    OTHER = "other", "Other"


class Origin(models.TextChoices):
    """The reason why an item is in the queue."""

    DISLIKED = "disliked", "Downvoted"
    SAMPLE = "sample", "Sample"


class ItemState(models.TextChoices):
    """The state of an item. It is withdrawn if its downvotes were taken back before anyone judged it."""

    OPEN = "open", "Waiting"
    DONE = "done", "Done"
    WITHDRAWN = "withdrawn", "Withdrawn"


class ReviewRules(models.Model):
    """A team's rules for reviews: which answers, and by how many; a team without a row has the defaults."""

    team = models.OneToOneField(Team, models.DB_CASCADE, related_name="review_rules", primary_key=True)
    takes_disliked = models.BooleanField(default=True, help_text="all downvoted answers")
    sample_share = models.FloatField(default=0, help_text="random sample of other assemblies, 0 to 1")
    verdicts_wanted = models.PositiveSmallIntegerField(default=1, help_text="verdicts wanted per item")
    # The sample has covered assemblies from before this moment.
    sampled_until = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "review rules"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(sample_share__gte=0, sample_share__lte=1), name="review_rules_share"
            ),
            models.CheckConstraint(
                condition=Q(verdicts_wanted__gte=1, verdicts_wanted__lte=VERDICTS_MAX),
                name="review_rules_verdicts",
            ),
        ]

    def __str__(self) -> str:
        return f"review rules of {self.team_id}"


class ReviewItemQuerySet(SubjectQuerySet["ReviewItem"]):
    def with_subject(self) -> Self:
        return super().with_subject().select_related("assigned_to")

    def with_own(self, reviewer: str) -> Self:
        """Mark items that the reviewer has judged as `is_judged`."""
        return self.annotate(is_judged=Exists(_verdicts_of(reviewer)))

    def left_for(self, reviewer: str) -> Self:
        """Items that the reviewer has not judged."""
        return self.filter(~Exists(_verdicts_of(reviewer)))


def _verdicts_of(reviewer: str) -> "models.QuerySet[ReviewSlot]":
    return ReviewSlot.objects.filter(item=OuterRef("pk"), reviewer=reviewer).exclude(verdict="")


class ReviewItem(models.Model):
    """One answer to judge, with one slot for each verdict wanted.

    It is about an answer made elsewhere, or else about the assembly and the answer made with it, if known.
    Stage and version are copied from the assembly, so that figures read only these tables.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="review_items", db_index=False)
    assembly = models.ForeignKey(Assembly, models.DB_CASCADE, related_name="review_items")
    message = models.ForeignKey(Message, models.DB_SET_NULL, null=True, related_name="review_items")
    external_message = models.ForeignKey(
        ExternalMessage, models.DB_CASCADE, null=True, related_name="review_items"
    )
    origin = models.CharField(max_length=8, choices=Origin)
    state = models.CharField(max_length=9, choices=ItemState, default=ItemState.OPEN)
    verdicts = models.PositiveSmallIntegerField(default=0, help_text="verdicts given so far")
    assigned_to = models.ForeignKey(
        User,
        models.DB_SET_NULL,
        null=True,
        related_name="review_items",
        help_text="blank: anyone can review it",
    )
    space = models.ForeignKey(Space, models.DB_CASCADE, null=True, related_name="review_items")
    stage = models.PositiveSmallIntegerField(null=True)
    config_version = models.PositiveIntegerField(null=True)
    created_at = models.DateTimeField(default=timezone.now)
    done_at = models.DateTimeField(null=True)

    objects = ReviewItemQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(state__in=ItemState.values), name="review_item_state"),
            models.CheckConstraint(condition=Q(origin__in=Origin.values), name="review_item_origin"),
            models.CheckConstraint(
                condition=Q(message=None) | Q(external_message=None), name="review_item_one_subject"
            ),
            models.UniqueConstraint(
                fields=["assembly"], condition=Q(external_message=None), name="review_item_assembly_once"
            ),
            models.UniqueConstraint(
                fields=["external_message"],
                condition=Q(external_message__isnull=False),
                name="review_item_external_once",
            ),
        ]
        indexes: ClassVar = [
            # Lists of a team, newest first.
            models.Index(fields=["team", "-created_at", "-id"], name="review_item_newest"),
            # The queue: downvoted answers before the sample, the oldest first.
            models.Index(
                fields=["team", "origin", "created_at", "id"],
                condition=Q(state=ItemState.OPEN),
                name="review_item_queue",
            ),
        ]

    def __str__(self) -> str:
        return f"review {self.pk}"


class ReviewSlotQuerySet(models.QuerySet["ReviewSlot"]):
    def judged(self) -> Self:
        return self.exclude(verdict="")

    def takeable(self, now: datetime) -> Self:
        """Slots of open items that are free or whose reservation has expired."""
        return self.filter(Q(reserved_until=None) | Q(reserved_until__lte=now), verdict="").filter(
            item__state=ItemState.OPEN
        )


class ReviewSlot(models.Model):
    """Room for one person's verdict on an item: free, reserved for a while, or judged."""

    item = models.ForeignKey(ReviewItem, models.DB_CASCADE, related_name="slots", db_index=False)
    number = models.PositiveSmallIntegerField()
    reviewer = models.CharField(max_length=RATER_MAX, blank=True)
    reserved_until = models.DateTimeField(null=True)
    verdict = models.CharField(max_length=16, choices=Verdict, blank=True)
    note = models.TextField(max_length=NOTE_MAX, blank=True)
    # Ids of the assembly's records that the verdict is about.
    record_ids = ArrayField(models.BigIntegerField(), default=list, blank=True)
    judged_at = models.DateTimeField(null=True)

    objects = ReviewSlotQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["item", "number"], name="review_slot_once"),
            # One verdict per person and item.
            models.UniqueConstraint(
                fields=["item", "reviewer"], condition=~Q(reviewer=""), name="review_slot_reviewer_once"
            ),
            models.CheckConstraint(
                condition=Q(verdict="", judged_at=None, reviewer="", reserved_until=None)
                | (Q(verdict="", judged_at=None, reserved_until__isnull=False) & ~Q(reviewer=""))
                | (
                    Q(verdict__in=Verdict.values, judged_at__isnull=False, reserved_until=None)
                    & ~Q(reviewer="")
                ),
                name="review_slot_state",
            ),
        ]
        indexes: ClassVar = [
            # The slots that a person has reserved or judged.
            models.Index(
                fields=["reviewer", "-judged_at"],
                condition=~Q(reviewer=""),
                name="review_slot_reviewer",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_verdict_display() or 'no verdict'} on review {self.item_id}"

    @property
    def reviewer_name(self) -> str:
        """The person's name without the prefix that tells users, keys and callers' raters apart."""
        return self.reviewer.partition(":")[2] or self.reviewer
