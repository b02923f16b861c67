"""Conversations with a model, and the outbox of messages still waiting for their answer."""

from datetime import datetime
from typing import ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.crypto import salted_hmac

from contextopt.assemblies.models import Assembly
from contextopt.limits import ACTOR_MAX, MODEL_MAX
from contextopt.people.models import Team
from contextopt.spaces.models import Space

CONVERSATION_TITLE_MAX = 120
MESSAGE_MAX = 100_000
ERROR_MAX = 300
IDEMPOTENCY_KEY_MAX = 64


class ConversationQuerySet(models.QuerySet["Conversation"]):
    def of(self, team: Team) -> Self:
        return self.filter(team=team)

    def with_space(self) -> Self:
        """Load the space in the same query."""
        return self.select_related("space")


class Conversation(models.Model):
    """Messages about one space. Each is sent with a context assembled from the space for it."""

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="conversations")
    space = models.ForeignKey(Space, models.DB_CASCADE, related_name="conversations")
    title = models.CharField(max_length=CONVERSATION_TITLE_MAX)
    stage = models.PositiveSmallIntegerField(default=5)
    model = models.CharField(
        max_length=MODEL_MAX, blank=True, help_text="Leave blank to use the endpoint's default."
    )
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    # The time of the last message, by which lists are sorted.
    active_at = models.DateTimeField(default=timezone.now)

    objects = ConversationQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(stage__gte=2, stage__lte=5), name="conversation_stage"),
        ]
        indexes: ClassVar = [
            # A team's conversations, last used first.
            models.Index(fields=["team", "-active_at", "-id"], name="conversation_latest"),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def name_in_log(self) -> str:
        """The conversation's name in its assemblies."""
        return f"chat:{self.pk}"

    @property
    def mark(self) -> str:
        """A stable text that nobody can guess, to mark where records begin and end."""
        return salted_hmac("contextopt.chat.marks", str(self.pk), algorithm="sha256").hexdigest()[:8]


class Author(models.TextChoices):
    USER = "user", "User"
    ASSISTANT = "assistant", "Assistant"


class MessageState(models.TextChoices):
    """The state of a user's message. An assistant's message is always answered.

    A held message is not sent by itself, because there was no endpoint when it was written.
    """

    QUEUED = "queued", "Queued"
    SENDING = "sending", "Sending"
    ANSWERED = "answered", "Answered"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"
    HELD = "held", "Not sent"


WAITING = (MessageState.QUEUED, MessageState.SENDING)
RETRYABLE = (MessageState.QUEUED, MessageState.FAILED, MessageState.CANCELLED, MessageState.HELD)


class MessageQuerySet(models.QuerySet["Message"]):
    def of(self, team: Team) -> Self:
        return self.filter(conversation__team=team)

    def asked(self) -> Self:
        """Return users' messages, each with its answer and its assembly in the same query."""
        return self.filter(author=Author.USER).select_related("answer", "assembly__config")

    def due(self, now: datetime) -> Self:
        """Return messages whose next try is due or whose sender has died, longest due first."""
        return self.filter(state__in=WAITING, next_try_at__lte=now).order_by("next_try_at", "id")


class Message(models.Model):
    """A user's message, or the answer to one.

    A user's message is its own row of the outbox: the transaction that stores it also queues it. While it is
    being sent, `next_try_at` is the time when its sender counts as dead. Every try has the same
    `idempotency_key`. `reply_to` is unique, so only one answer is kept even if several tries are answered.
    """

    conversation = models.ForeignKey(Conversation, models.DB_CASCADE, related_name="messages")
    author = models.CharField(max_length=9, choices=Author)
    text = models.TextField()
    reply_to = models.OneToOneField("self", models.DB_CASCADE, null=True, related_name="answer")
    state = models.CharField(max_length=9, choices=MessageState)
    assembly = models.ForeignKey(Assembly, models.DB_SET_NULL, null=True, related_name="messages")
    # The earlier messages sent along. Chosen once, since every try must send the same.
    history_ids = ArrayField(models.BigIntegerField(), default=list)
    idempotency_key = models.CharField(max_length=IDEMPOTENCY_KEY_MAX, unique=True, null=True)  # noqa: DJ001
    tries = models.PositiveIntegerField(default=0)
    next_try_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=ERROR_MAX, blank=True)
    # The part of an answer that has arrived while it is being sent. Empty in every other state.
    partial_text = models.TextField(blank=True, default="", db_default="")
    model = models.CharField(max_length=MODEL_MAX, blank=True)
    prompt_tokens = models.PositiveIntegerField(null=True, help_text="counted by the endpoint")
    completion_tokens = models.PositiveIntegerField(null=True, help_text="counted by the endpoint")
    # None if the endpoint reports none, which is not the same as 0.
    cached_tokens = models.PositiveIntegerField(
        null=True, help_text="found in its cache, as the endpoint says"
    )
    duration_ms = models.FloatField(null=True)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    answered_at = models.DateTimeField(null=True)

    objects = MessageQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(state__in=MessageState.values), name="message_state"),
            models.CheckConstraint(
                condition=Q(author=Author.USER, reply_to=None, idempotency_key__isnull=False)
                | Q(author=Author.ASSISTANT, reply_to__isnull=False, state=MessageState.ANSWERED),
                name="message_author",
            ),
            models.CheckConstraint(
                condition=Q(state__in=WAITING, next_try_at__isnull=False)
                | (~Q(state__in=WAITING) & Q(next_try_at=None)),
                name="message_next_try",
            ),
        ]
        indexes: ClassVar = [
            # A conversation's messages in order.
            models.Index(fields=["conversation", "id"], name="message_order"),
            # The outbox: messages that are due.
            models.Index(fields=["next_try_at", "id"], condition=Q(state__in=WAITING), name="message_due"),
            # Adds up what endpoints reported of their cache in a period.
            models.Index(
                fields=["created_at"], condition=Q(cached_tokens__isnull=False), name="message_reported"
            ),
        ]

    def __str__(self) -> str:
        return f"message {self.pk}"

    @property
    def is_waiting(self) -> bool:
        return self.state in WAITING

    @property
    def is_retryable(self) -> bool:
        return self.state in RETRYABLE
