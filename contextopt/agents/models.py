"""Tasks of coding agents, their attempts, and the files each receiver was last sent."""

from datetime import datetime, timedelta
from typing import ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import F, Q, Sum
from django.db.models.functions import Length
from django.utils import timezone

from contextopt.agents.phaseversions import PhaseVersion
from contextopt.assemblies.models import Assembly
from contextopt.engine.agents import phases
from contextopt.engine.agents.contexts import FIELDS
from contextopt.engine.agents.deltas import SentFile
from contextopt.engine.agents.retries import ROOT_CAUSE_CHARS, UNSENT_ACTIONS, percent_of
from contextopt.inputs import read_digits
from contextopt.limits import ACTOR_MAX
from contextopt.people.models import Team

models.CharField.register_lookup(Length)

TASK_DESCRIPTION_MAX = 100_000
TASK_EXTERNAL_ID_MAX = 200
REPOSITORY_MAX = 200
RECEIVER_MAX = 64
DEFAULT_RECEIVER = "agent"
# A path is part of an index row, which has 2,704 bytes.
PATH_MAX = 500
FILE_CHARS_MAX = 1_000_000
BLOB_BYTES_MAX = 4 * FILE_CHARS_MAX
QUALITY_MAX = 10
STANDING_TITLE_MAX = 200
STANDING_CONTENT_MAX = 100_000
PHASE_BUDGET_MAX = 2_000_000
# A task's files are remembered this long after its last attempt.
FILES_LIFE = timedelta(days=30)


class TaskState(models.TextChoices):
    OPEN = "open", "Open"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    IMPOSSIBLE = "impossible", "Impossible"


class HandoffPhase(models.TextChoices):
    """The phases that hand findings on, in order. None is skipped or repeated."""

    ANALYSIS = "analysis", "Analysis"
    DESIGN = "design", "Design"
    IMPLEMENTATION = "implementation", "Implementation"

    @property
    def before(self) -> "HandoffPhase | None":
        return self.all_before[-1] if self.all_before else None

    @property
    def all_before(self) -> "tuple[HandoffPhase, ...]":
        order = list(HandoffPhase)
        return tuple(order[: order.index(self)])

    @property
    def after(self) -> "HandoffPhase | None":
        order = list(HandoffPhase)
        place = order.index(self)
        return order[place + 1] if place + 1 < len(order) else None


def files_expiry() -> datetime:
    return timezone.now() + FILES_LIFE


class TaskQuerySet(models.QuerySet["Task"]):
    def of(self, team: Team) -> Self:
        return self.filter(team=team)

    def newest_first(self) -> Self:
        return self.order_by("-created_at", "-id")

    def named(self, name: str) -> Self:
        """Return the tasks with this external id or number; an external id may look like a number."""
        return self.filter(Q(external_id=name) | Q(pk=read_digits(name)))

    def with_expired_files(self) -> Self:
        """Return tasks whose files are due to be forgotten, longest due first."""
        return self.filter(expires_at__lt=timezone.now()).order_by("expires_at")


class Task(models.Model):
    """A request to an agent. Its attempts, findings and completion refer to it.

    At `expires_at` its remembered files are forgotten. The task and its attempts stay.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="tasks")
    external_id = models.CharField(max_length=TASK_EXTERNAL_ID_MAX, blank=True)
    description = models.TextField(max_length=TASK_DESCRIPTION_MAX)
    repository = models.CharField(max_length=REPOSITORY_MAX, blank=True)
    state = models.CharField(max_length=12, choices=TaskState, default=TaskState.OPEN)
    phase = models.CharField(max_length=16, choices=HandoffPhase, default=HandoffPhase.ANALYSIS)
    # When it entered each later phase.
    design_at = models.DateTimeField(null=True, blank=True)
    implementation_at = models.DateTimeField(null=True, blank=True)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(auto_now=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    quality_score = models.FloatField(null=True, blank=True, help_text="0 to 10, from the task's report")
    completed_at = models.DateTimeField(null=True, blank=True)

    objects = TaskQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["team", "external_id"], condition=~Q(external_id=""), name="task_external_once"
            ),
            models.CheckConstraint(condition=Q(state__in=TaskState.values), name="task_state"),
            models.CheckConstraint(condition=Q(phase__in=HandoffPhase.values), name="task_phase"),
            models.CheckConstraint(
                condition=Q(description__length__gte=1, description__length__lte=TASK_DESCRIPTION_MAX),
                name="task_description",
            ),
            models.CheckConstraint(
                condition=Q(quality_score__gte=0, quality_score__lte=QUALITY_MAX), name="task_quality"
            ),
        ]
        indexes: ClassVar = [
            # A team's tasks, newest first.
            models.Index(fields=["team", "-created_at", "-id"], name="task_newest"),
            # The sweep looks for files to forget.
            models.Index(fields=["expires_at"], condition=Q(expires_at__isnull=False), name="task_expiry"),
        ]

    def __str__(self) -> str:
        return self.description[:80]

    @property
    def is_open(self) -> bool:
        return self.state == TaskState.OPEN

    def enter(self, phase: HandoffPhase) -> None:
        """Set the phase that follows, and the time."""
        self.phase = phase
        setattr(self, f"{phase}_at", timezone.now())

    def entered_at(self, phase: HandoffPhase) -> datetime | None:
        """Return when it entered the phase, or None if it has not."""
        times = {HandoffPhase.DESIGN: self.design_at, HandoffPhase.IMPLEMENTATION: self.implementation_at}
        return times.get(phase, self.created_at)

    def phase_at(self, moment: datetime) -> HandoffPhase:
        """Return the phase that the task was in."""
        entered = [
            phase
            for phase in HandoffPhase
            if phase.before and (at := self.entered_at(phase)) and moment >= at
        ]
        return entered[-1] if entered else HandoffPhase.ANALYSIS


class Action(models.TextChoices):
    """The agent's next step."""

    REPLAN = "replan", "Plan again"
    RETRY = "retry", "Retry with the changes"
    REFETCH = "refetch", "Retry with the full context"
    STOP = "stop", "Stop"
    WAIT = "wait", "Wait, then repeat the same plan"


class AttemptState(models.TextChoices):
    READY = "ready", "Ready"
    WAITING = "waiting", "Waiting"


# The tokens that would have been sent. An attempt that waits or stops sends nothing, so it saves nothing.
COMPARED_TOKENS = Sum("full_tokens", filter=~Q(action__in=UNSENT_ACTIONS), default=0)


class AttemptQuerySet(models.QuerySet["Attempt"]):
    def due(self) -> Self:
        """Return attempts still marked as waiting after their wait is over, longest over first."""
        waiting = self.filter(state=AttemptState.WAITING, available_at__lte=timezone.now())
        return waiting.order_by("available_at")


class Attempt(models.Model):
    """The response to a failed attempt: one retry of a task, numbered from 1 without gaps.

    A trigger refuses changes to anything but `state`, set when a wait ends, and `assembly`.
    """

    task = models.ForeignKey(Task, models.DB_CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    receiver = models.CharField(max_length=RECEIVER_MAX)
    root_cause = models.CharField(max_length=ROOT_CAUSE_CHARS)
    diagnosis = models.JSONField()
    plan = models.JSONField()
    error = models.TextField(blank=True)
    action = models.CharField(max_length=8, choices=Action)
    state = models.CharField(max_length=8, choices=AttemptState, default=AttemptState.READY)
    available_at = models.DateTimeField()
    retry_context = models.JSONField()
    full_tokens = models.PositiveIntegerField()
    delta_tokens = models.PositiveIntegerField()
    changed_files = models.PositiveIntegerField(default=0)
    encoding = models.CharField(max_length=64)
    assembly = models.OneToOneField(Assembly, models.DB_SET_NULL, null=True, related_name="attempt")
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    objects = AttemptQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["task", "number"], name="attempt_number_once"),
            models.CheckConstraint(condition=Q(number__gte=1), name="attempt_number"),
            models.CheckConstraint(condition=Q(receiver__length__gte=1), name="attempt_receiver"),
            models.CheckConstraint(condition=Q(action__in=Action.values), name="attempt_action"),
            models.CheckConstraint(
                condition=Q(state=AttemptState.READY) | Q(state=AttemptState.WAITING, action=Action.WAIT),
                name="attempt_state",
            ),
            models.CheckConstraint(condition=Q(available_at__gte=F("created_at")), name="attempt_available"),
        ]
        indexes: ClassVar = [
            # Waits that are over.
            models.Index(
                fields=["available_at"], condition=Q(state=AttemptState.WAITING), name="attempt_waiting"
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of task {self.task_id}"

    @property
    def is_sent(self) -> bool:
        return self.action not in UNSENT_ACTIONS

    @property
    def saved_tokens(self) -> int | None:
        """Tokens saved against sending everything, negative if the delta cost more, or None if nothing was
        sent.
        """
        return self.full_tokens - self.delta_tokens if self.is_sent else None

    @property
    def saved_percent(self) -> float | None:
        """The saving in percent, to one decimal: 0 if there was nothing to save, None if nothing was sent."""
        return percent_of(self.saved_tokens, self.full_tokens)


class Blob(models.Model):
    """A file's content, stored once per team, however many tasks and receivers have it."""

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="blobs")
    sha256 = models.CharField(max_length=64)
    size = models.PositiveIntegerField(help_text="bytes")
    content = models.BinaryField()
    # Updated by every attempt with this content, so that a concurrent sweep leaves it.
    used_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "sha256"], name="blob_once"),
            models.CheckConstraint(condition=Q(size__lte=BLOB_BYTES_MAX), name="blob_size"),
        ]
        # The sweep looks for contents that no receiver still has.
        indexes: ClassVar = [models.Index(fields=["used_at"], name="blob_age")]

    def __str__(self) -> str:
        return self.sha256[:12]


class ReceiverFile(models.Model):
    """One receiver's copy of one file: the content last sent in full, if it ever was."""

    task = models.ForeignKey(Task, models.DB_CASCADE, related_name="receiver_files")
    receiver = models.CharField(max_length=RECEIVER_MAX)
    path = models.CharField(max_length=PATH_MAX)
    blob = models.ForeignKey(Blob, models.DB_CASCADE, null=True, related_name="receiver_files")
    is_partial = models.BooleanField(default=False, help_text="a cut version has been sent since")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["task", "receiver", "path"], name="receiver_file_once"),
            models.CheckConstraint(
                condition=Q(blob__isnull=False) | Q(is_partial=True), name="receiver_file_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.path} at {self.receiver}"

    def to_value(self) -> SentFile:
        """Return the engine's value. This loads the blob."""
        content = bytes(self.blob.content).decode() if self.blob else None
        return SentFile(content, self.is_partial)


class PhaseProfile(PhaseVersion):
    """One version of a phase's settings. A phase without one in the team uses the engine's defaults."""

    SETTINGS = ("budget_tokens", "fields")
    EVENT = "profile"

    budget_tokens = models.PositiveIntegerField(validators=[MaxValueValidator(PHASE_BUDGET_MAX)])
    fields = ArrayField(
        models.CharField(max_length=32, choices=[(name, name) for name in FIELDS]),
        default=list,
        blank=True,
        help_text=f"Comma-separated: {', '.join(FIELDS)}. The task is always sent.",
    )

    class Meta(PhaseVersion.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "phase", "version"], name="phase_version_once"),
            # Every filtering reads the active profile.
            models.UniqueConstraint(
                fields=["team", "phase"], condition=Q(is_active=True), name="phase_active_once"
            ),
            models.CheckConstraint(condition=Q(phase__length__gte=1), name="phase_named"),
            models.CheckConstraint(condition=Q(fields__contained_by=list(FIELDS)), name="phase_fields"),
            models.CheckConstraint(condition=Q(budget_tokens__lte=PHASE_BUDGET_MAX), name="phase_budget"),
        ]

    def clean(self) -> None:
        """Refuse duplicate fields."""
        if len(set(self.fields)) < len(self.fields):
            raise ValidationError({"fields": "must name each field once"})

    def to_value(self) -> phases.PhaseProfile:
        """Return the engine's value."""
        return phases.PhaseProfile(self.phase, self.budget_tokens, tuple(self.fields))
