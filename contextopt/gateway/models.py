"""How the prompts of a space are treated, and one row for each prompt that passed."""

from typing import ClassVar, Self
from uuid import uuid4

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.engine.placement.choice import AUTO
from contextopt.limits import MODEL_MAX
from contextopt.people.models import ApiKey, Team
from contextopt.spaces.models import Space

CONVERSATION_MAX = 64
PHRASE_MIN, PHRASE_MAX, PHRASES_MAX = 4, 200, 20
TIME_LIMIT_MIN_MS, TIME_LIMIT_MS, TIME_LIMIT_MAX_MS = 50, 150, 2_000
ANSWER_ID_MAX = 200


class Mode(models.TextChoices):
    AUDIT = "audit", "Audit"
    INSERT = "insert", "Insert"


class Keep(models.TextChoices):
    """How much of a prompt's text is kept; each includes the ones before it."""

    SIZES = "sizes", "Sizes only"
    QUESTION = "question", "The question"
    ALL = "all", "The question and the answer"


class Protocol(models.TextChoices):
    CHAT = "chat", "Chat completions"
    RESPONSES = "responses", "Responses"
    MESSAGES = "messages", "Messages"


class Outcome(models.TextChoices):
    """The end of a request upstream. An answer may be an error of the provider's, with its status.

    A client that leaves is no failure: it may have what it wanted, or have changed its mind.
    """

    ANSWERED = "answered", "Answered"
    UNREACHABLE = "unreachable", "Not reachable"
    BROKEN = "broken", "Broke off"
    ABANDONED = "abandoned", "Abandoned"


class Reason(models.TextChoices):
    """Why a request went on without a context. In audit mode, why none could have been added."""

    NO_SPACE = "no_space", "The team has no space"
    UNNAMED_SPACE = "unnamed_space", "The team has several spaces and the request names none"
    UNKNOWN_SPACE = "unknown_space", "The key reaches no space of that name"
    TOO_LARGE = "too_large", "The request is over 32 MiB or 30,000 JSON values"
    COMPRESSED = "compressed", "The request is compressed"
    UNREADABLE = "unreadable", "The request is not the protocol's JSON"
    NO_QUESTION = "no_question", "The request has no user text"
    TOOL_RESULTS = "tool_results", "The turn ends in tool results and had no context before"
    CLIENT_INTERNAL = "client_internal", "The client's own prompt, such as for a title or a summary"
    EMPTY = "empty", "The context is empty"
    OVER_BUDGET = "over_budget", "The prompt leaves no room for a context"
    TIMEOUT = "timeout", "The context took longer than the space's time limit"
    BUSY = "busy", "Others' contexts took all of the space's time limit"
    UNAVAILABLE = "unavailable", "The database was not available"
    FAILED = "failed", "Assembling the context failed"


PLACEMENT_CHOICES = (
    (AUTO, "Cheapest"), ("system", "System prompt"), ("tail", "Before the question"), ("append", "Appended"),
)  # fmt: skip


class GatewayPolicy(models.Model):
    """How prompts for a space are treated. A space without one is audited and keeps sizes only."""

    space = models.OneToOneField(Space, models.DB_CASCADE, related_name="gateway_policy", primary_key=True)
    mode = models.CharField(max_length=6, choices=Mode, default=Mode.AUDIT)
    insert_percent = models.PositiveSmallIntegerField(
        default=100, help_text="share of conversations that get a context in insert mode, 0 to 100"
    )
    placement = models.CharField(max_length=6, choices=PLACEMENT_CHOICES, default=AUTO)
    keep = models.CharField(max_length=8, choices=Keep, default=Keep.SIZES)
    history_tokens = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="if older turns have more tokens, cut them to half of it; blank to never cut",
    )
    time_limit_ms = models.PositiveSmallIntegerField(
        default=TIME_LIMIT_MS,
        db_default=TIME_LIMIT_MS,
        help_text="a prompt waits for its context for at most this long, 50 to 2,000",
    )
    internal_phrases = ArrayField(
        models.CharField(max_length=PHRASE_MAX),
        size=PHRASES_MAX,
        default=list,
        db_default=[],
        blank=True,
        help_text="a prompt that contains one of these is the client's own, and gets no context",
    )
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "gateway policies"
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(mode__in=Mode.values), name="gateway_policy_mode"),
            models.CheckConstraint(condition=Q(keep__in=Keep.values), name="gateway_policy_keep"),
            models.CheckConstraint(condition=Q(insert_percent__lte=100), name="gateway_policy_percent"),
            models.CheckConstraint(
                condition=Q(time_limit_ms__range=(TIME_LIMIT_MIN_MS, TIME_LIMIT_MAX_MS)),
                name="gateway_policy_time_limit",
            ),
            models.CheckConstraint(
                condition=Q(placement__in=dict(PLACEMENT_CHOICES)), name="gateway_policy_placement"
            ),
        ]

    def __str__(self) -> str:
        return f"gateway of {self.space_id}: {self.mode}"


class GatewayRequestQuerySet(models.QuerySet["GatewayRequest"]):
    def of(self, team: Team) -> Self:
        return self.filter(team=team)

    def newest_first(self) -> Self:
        return self.order_by("-created_at", "-id")


class GatewayRequest(models.Model):
    """One prompt that passed the gateway, in numbers. It is written after its answer."""

    # Drawn when the request arrives, so that it can never be stored twice.
    uid = models.UUIDField(default=uuid4, unique=True, editable=False)
    # Indexes below begin with the team.
    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="gateway_requests", db_index=False)
    api_key = models.ForeignKey(ApiKey, models.DB_SET_NULL, null=True, related_name="gateway_requests")
    space = models.ForeignKey(Space, models.DB_CASCADE, null=True, related_name="gateway_requests")
    # The context that was inserted, or that would have been. Turns that end in tool results repeat one.
    assembly = models.ForeignKey(Assembly, models.DB_SET_NULL, null=True, related_name="gateway_requests")
    protocol = models.CharField(max_length=9, choices=Protocol)
    model = models.CharField(max_length=MODEL_MAX, blank=True)
    is_streamed = models.BooleanField(default=False)
    mode = models.CharField(max_length=6, choices=Mode)
    is_inserted = models.BooleanField(default=False)
    reason = models.CharField(max_length=15, choices=Reason, blank=True)
    outcome = models.CharField(max_length=11, choices=Outcome)
    status_code = models.PositiveSmallIntegerField(
        null=True, help_text="the provider's; null without an answer"
    )
    # The provider's name for its answer, such as chatcmpl-… or msg_…, by which votes find it.
    answer_id = models.CharField(max_length=ANSWER_ID_MAX, blank=True, db_default="", default="")
    # A hash, never the caller's own text.
    conversation = models.CharField(max_length=CONVERSATION_MAX, blank=True)
    # Where the context stands: the number of user texts before its own, and that text's hash.
    turn = models.PositiveIntegerField(null=True)
    question_hash = models.CharField(max_length=32, blank=True)
    # Whether its context is a content part of its own, and not at the beginning of the text.
    is_own_part = models.BooleanField(default=False, db_default=False)
    # The user text that the history began with after a cut, in the same way; null if nothing was cut.
    cut_turn = models.PositiveIntegerField(null=True)
    cut_hash = models.CharField(max_length=32, blank=True, db_default="", default="")
    request_bytes = models.PositiveBigIntegerField()
    answer_bytes = models.PositiveBigIntegerField()
    # Counted here in the tokens of the model, at most, without the context; null if the request was not read.
    prompt_tokens = models.PositiveIntegerField(null=True)
    # The tokens of all blocks that were inserted, or would have been.
    context_tokens = models.PositiveIntegerField(null=True)
    # The provider's own figures. Null if it reported none, which is not the same as 0.
    input_tokens = models.PositiveBigIntegerField(null=True)
    cached_tokens = models.PositiveBigIntegerField(null=True)
    cache_write_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    added_ms = models.FloatField(help_text="from the whole request's arrival until it went on upstream")
    time_limit_ms = models.PositiveSmallIntegerField(
        null=True, help_text="the space's limit at that time, if the context missed it"
    )
    first_byte_ms = models.FloatField(null=True, help_text="from its arrival to the answer's first byte")
    total_ms = models.FloatField()
    question = models.TextField(blank=True, help_text="kept only if the space's policy says so")
    answer = models.TextField(blank=True, help_text="kept only if the space's policy says so")
    created_at = models.DateTimeField(default=timezone.now)

    objects = GatewayRequestQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(protocol__in=Protocol.values), name="gateway_protocol"),
            models.CheckConstraint(condition=Q(mode__in=Mode.values), name="gateway_mode"),
            models.CheckConstraint(condition=Q(outcome__in=Outcome.values), name="gateway_outcome"),
            models.CheckConstraint(
                condition=Q(is_inserted=False) | Q(mode=Mode.INSERT, reason=""), name="gateway_inserted"
            ),
        ]
        indexes: ClassVar = [
            # Lists and figures of a team, newest first.
            models.Index(fields=["team", "-created_at", "-id"], name="gateway_newest"),
            # The requests of one conversation, to find its blocks after a restart.
            models.Index(
                fields=["team", "conversation", "-created_at", "-id"],
                condition=~Q(conversation=""),
                name="gateway_conversation",
            ),
            # The request of an answer that someone votes on.
            models.Index(fields=["team", "answer_id"], condition=~Q(answer_id=""), name="gateway_answer"),
        ]

    def __str__(self) -> str:
        return f"gateway request {self.uid}"


class GatewayGap(models.Model):
    """Requests of a team that passed but could not be logged, counted."""

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="gateway_gaps")
    requests = models.PositiveIntegerField()
    created_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"{self.requests} requests not logged"
