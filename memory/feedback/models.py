"""Votes on answers: one vote per person and message or assembly."""

from typing import ClassVar, Self

from django.db import models
from django.db.models import Q
from django.db.models.fields.json import KeyTextTransform
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.chat.models import Message
from contextopt.people.models import Team
from contextopt.spaces.models import Space

RATER_MAX = 200
EXTERNAL_MESSAGE_MAX = 200
REASON_MAX = 64
COMMENT_MAX = 2_000
ANSWER_MAX = 20_000


class Rating(models.TextChoices):
    UP = "up", "Upvote"
    DOWN = "down", "Downvote"


class ExternalMessage(models.Model):
    """An answer made elsewhere, under the caller's own id, and the assembly it was made with.

    `answer` is its text, if the caller gave it.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="external_messages")
    external_id = models.CharField(max_length=EXTERNAL_MESSAGE_MAX)
    assembly = models.ForeignKey(Assembly, models.DB_CASCADE, related_name="external_messages")
    answer = models.TextField(max_length=ANSWER_MAX, blank=True, db_default="")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "external_id"], name="external_message_once"),
        ]

    def __str__(self) -> str:
        return self.external_id


class SubjectQuerySet[Row: models.Model](models.QuerySet[Row]):
    """Rows about an answer: votes and reviews."""

    def of(self, team: Team) -> Self:
        return self.filter(team=team)

    def with_subject(self) -> Self:
        """Load the fields of the answer that lists show in the same query."""
        return self.select_related("space", "message", "external_message").defer("message__text")

    def with_question(self) -> Self:
        """Annotate the question of the context as `question`; None if it had none or it isn't kept."""
        return self.annotate(question=KeyTextTransform("query", "assembly__payload__request"))


class VoteQuerySet(SubjectQuerySet["Vote"]):
    def with_context(self) -> Self:
        """Leave out answers to prompts that the gateway only audited: they say nothing about a context."""
        return self.filter(assembly__is_sent=True)


class Vote(models.Model):
    """One person's vote. Voting again changes it; withdrawing it deletes it.

    It is about an answer in a conversation, an answer made elsewhere, or the assembly itself. Stage, version
    and phase are copied from the assembly, so that trends read only this table.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="votes", db_index=False)
    assembly = models.ForeignKey(Assembly, models.DB_CASCADE, related_name="votes")
    message = models.ForeignKey(Message, models.DB_CASCADE, null=True, related_name="votes")
    external_message = models.ForeignKey(ExternalMessage, models.DB_CASCADE, null=True, related_name="votes")
    rater = models.CharField(max_length=RATER_MAX)
    rating = models.CharField(max_length=4, choices=Rating)
    reason = models.CharField(max_length=REASON_MAX, blank=True)
    comment = models.TextField(max_length=COMMENT_MAX, blank=True)
    space = models.ForeignKey(Space, models.DB_CASCADE, null=True, related_name="votes")
    stage = models.PositiveSmallIntegerField(null=True)
    config_version = models.PositiveIntegerField(null=True)
    phase = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(auto_now=True)

    objects = VoteQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(rating__in=Rating.values), name="vote_rating"),
            models.CheckConstraint(
                condition=Q(message=None) | Q(external_message=None), name="vote_one_subject"
            ),
            models.UniqueConstraint(
                fields=["message", "rater"], condition=Q(message__isnull=False), name="vote_message_once"
            ),
            models.UniqueConstraint(
                fields=["external_message", "rater"],
                condition=Q(external_message__isnull=False),
                name="vote_external_once",
            ),
            models.UniqueConstraint(
                fields=["assembly", "rater"],
                condition=Q(message=None, external_message=None),
                name="vote_assembly_once",
            ),
        ]
        indexes: ClassVar = [
            # Lists and trends of a team, newest first.
            models.Index(fields=["team", "-created_at", "-id"], name="vote_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.rating} by {self.rater}"

    @property
    def rater_name(self) -> str:
        """The person's name without the prefix that tells users, keys and callers' raters apart."""
        return self.rater.partition(":")[2] or self.rater
