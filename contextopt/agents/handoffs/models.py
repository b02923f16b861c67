"""Findings of a task's phases, and the compressions that hand them to the next phase."""

from collections.abc import Iterable
from typing import Any, ClassVar, Self, cast

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q, Sum
from django.db.models.functions import Length
from django.utils import timezone

from contextopt.agents.models import HandoffPhase, Task
from contextopt.assemblies.models import Assembly
from contextopt.engine.briefs import findings as values
from contextopt.engine.briefs.compressor import LEFT_OUT
from contextopt.engine.briefs.settings import MAX_BUDGET_TOKENS, MAX_CATEGORIES, MIN_BUDGET_TOKENS
from contextopt.engine.values import ContextWarning, read_warnings
from contextopt.limits import ACTOR_MAX, MODEL_MAX
from contextopt.people.models import Team

models.CharField.register_lookup(Length)

CATEGORY_MAX = 64
CONTENT_MAX_BYTES = 65_536
TAG_MAX = 64
TAGS_MAX = 50
DEPENDENCIES_MAX = 100
# Many times more than a phase may hand on. Beyond it, compressing takes longer than a request may.
FINDINGS_MAX = 500
PHASE_TOKENS_MAX = 400_000
RESOLUTION_MAX = 2_000


def finding_key(number: int) -> str:
    """Return the id that people and agents use for a finding of a task, such as F-001."""
    return f"F-{number:03d}"


def number_of(key: str) -> int:
    """Return the number in a checked id."""
    return int(key.removeprefix("F-"))


class Decision(models.TextChoices):
    OPEN = "open", "Open"
    RESOLVED = "resolved", "Resolved"


class FindingQuerySet(models.QuerySet["Finding"]):
    def in_order(self) -> Self:
        return self.order_by("number")

    def measure(self) -> int:
        """Return the total tokens of these findings in full."""
        return int(self.aggregate(total=Sum("tokens", default=0))["total"])


class Finding(models.Model):
    """One result of a phase, numbered within its task from 1 without gaps.

    A finding's content never changes; a trigger refuses it. A decision is resolved, and its answer may be
    corrected: `resolution` is the newest. Tags and dependencies may be set again. `tokens` is the size of the
    finding alone and in full.
    """

    task = models.ForeignKey(Task, models.DB_CASCADE, related_name="findings", db_index=False)
    number = models.PositiveIntegerField()
    phase = models.CharField(max_length=16, choices=HandoffPhase)
    category = models.CharField(max_length=CATEGORY_MAX)
    content = models.JSONField()
    tags = ArrayField(models.CharField(max_length=TAG_MAX), default=list, blank=True)
    confidence = models.FloatField()
    depends_on = ArrayField(models.PositiveIntegerField(), default=list, blank=True)
    implementation_ready = models.BooleanField(default=False)
    decision = models.CharField(max_length=8, choices=Decision, blank=True)
    resolution = models.CharField(max_length=RESOLUTION_MAX, blank=True)
    resolved_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    relabelled_by = models.CharField(max_length=ACTOR_MAX, blank=True, db_default="")
    relabelled_at = models.DateTimeField(
        null=True, blank=True, help_text="last change of tags or dependencies"
    )
    tokens = models.PositiveIntegerField()
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    objects = FindingQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["task", "number"], name="finding_number_once"),
            models.CheckConstraint(condition=Q(number__gte=1), name="finding_number"),
            models.CheckConstraint(condition=Q(phase__in=HandoffPhase.values), name="finding_phase"),
            models.CheckConstraint(condition=Q(category__length__gte=1), name="finding_category"),
            models.CheckConstraint(
                condition=Q(confidence__gte=0, confidence__lte=1), name="finding_confidence"
            ),
            models.CheckConstraint(
                condition=Q(decision="", resolved_at=None)
                | Q(decision=Decision.OPEN, resolved_at=None)
                | Q(decision=Decision.RESOLVED),
                name="finding_decision",
            ),
        ]
        # Every list belongs to one task, and nearly always to one of its phases, in order.
        indexes: ClassVar = [models.Index(fields=["task", "phase", "number"], name="finding_of_phase")]

    def __str__(self) -> str:
        return f"{self.key} of task {self.task_id}"

    @property
    def key(self) -> str:
        return finding_key(self.number)

    @property
    def dependencies(self) -> list[str]:
        return [finding_key(number) for number in self.depends_on]

    @property
    def is_open(self) -> bool:
        return self.decision == Decision.OPEN

    @property
    def is_tagged_critical(self) -> bool:
        return any(tag.casefold() == values.CRITICAL_TAG for tag in self.tags)

    def to_value(self, known: frozenset[int] | None = None) -> values.Finding:
        """Return the engine's value. If `known` is given, keep only the dependencies in it."""
        numbers = [number for number in self.depends_on if known is None or number in known]
        return values.Finding(
            id=self.key,
            phase=self.phase,
            category=self.category,
            content=self.content,
            tags=tuple(self.tags),
            confidence=self.confidence,
            depends_on=tuple(map(finding_key, numbers)),
            implementation_ready=self.implementation_ready,
            decision=cast("values.Decision | None", self.decision or None),
            answer=self.resolution if self.decision == Decision.RESOLVED else "",
        )


class Resolution(models.Model):
    """One answer to a finding's decision, numbered from 1. The newest counts. A trigger refuses changes."""

    finding = models.ForeignKey(Finding, models.DB_CASCADE, related_name="resolutions", db_index=False)
    number = models.PositiveIntegerField()
    answer = models.CharField(max_length=RESOLUTION_MAX)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints: ClassVar = [
            # Also finds the answers of a finding.
            models.UniqueConstraint(fields=["finding", "number"], name="resolution_number_once"),
            models.CheckConstraint(condition=Q(number__gte=1), name="resolution_number"),
            models.CheckConstraint(condition=Q(answer__length__gte=1), name="resolution_answer"),
        ]

    def __str__(self) -> str:
        return f"answer {self.number} of {self.finding}"


class BriefState(models.TextChoices):
    """The state of the model's brief, which may replace the extracted one."""

    NONE = "none", "Not requested"
    PENDING = "pending", "In progress"
    IN_FORCE = "in_force", "Active"
    REFUSED = "refused", "Refused"
    LATE = "late", "Too late"


class PhaseCompressionQuerySet(models.QuerySet["PhaseCompression"]):
    def latest_versions(self) -> Self:
        """Return the active compression for each phase of each task."""
        rows = self.order_by("task", "phase", "-version").distinct("task", "phase")
        return rows.select_related("assembly")


class PhaseCompression(models.Model):
    """A phase's hand-off: its critical findings in full and a brief of the rest.

    Compressing again adds a version. The latest is active, and the others stay readable. `made_in` is the
    phase that the task was in, if it was another.

    `extract` is the brief made of the findings' own words. `written` is the model's brief, if one was
    requested. A trigger refuses changes to anything but the model's brief and its state, `consumed_at` and
    `assembly`.
    """

    task = models.ForeignKey(Task, models.DB_CASCADE, related_name="compressions", db_index=False)
    phase = models.CharField(max_length=16, choices=HandoffPhase)
    version = models.PositiveIntegerField(default=1, db_default=1)
    made_in = models.CharField(max_length=16, choices=HandoffPhase, blank=True, db_default="")
    extract = models.TextField(blank=True)
    extract_tokens = models.PositiveIntegerField()
    written = models.TextField(blank=True)
    written_tokens = models.PositiveIntegerField(default=0)
    written_by = models.CharField(max_length=MODEL_MAX, blank=True)
    brief_state = models.CharField(max_length=8, choices=BriefState, default=BriefState.NONE)
    brief_note = models.CharField(max_length=500, blank=True)
    critical = ArrayField(models.PositiveIntegerField(), default=list, blank=True)
    critical_tokens = models.PositiveIntegerField()
    tokens_before = models.PositiveIntegerField(help_text="tokens of all findings in full")
    findings_count = models.PositiveIntegerField()
    findings_hash = models.CharField(max_length=64)
    discarded = models.JSONField(default=list)
    in_brief = ArrayField(models.PositiveIntegerField(), default=list, blank=True)
    warnings = models.JSONField(default=list, blank=True)
    undecided = ArrayField(models.PositiveIntegerField(), default=list, blank=True)
    is_forced = models.BooleanField(default=False)
    writer_version = models.CharField(max_length=32)
    settings = models.JSONField()
    encoding = models.CharField(max_length=64)
    assembly_ms = models.FloatField()
    consumed_at = models.DateTimeField(null=True, blank=True)
    assembly = models.OneToOneField(Assembly, models.DB_SET_NULL, null=True, related_name="handoff")
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    objects = PhaseCompressionQuerySet.as_manager()

    class Meta:
        verbose_name = "hand-off"
        verbose_name_plural = "hand-offs"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["task", "phase", "version"], name="compression_version_once"),
            models.CheckConstraint(condition=Q(phase__in=HandoffPhase.values), name="compression_phase"),
            models.CheckConstraint(condition=Q(brief_state__in=BriefState.values), name="compression_brief"),
            models.CheckConstraint(
                condition=~Q(brief_state=BriefState.IN_FORCE) | Q(written_tokens__gte=1),
                name="compression_written",
            ),
        ]
        # The sweep looks for pending briefs that no worker is still writing.
        indexes: ClassVar = [
            models.Index(
                fields=["created_at"], condition=Q(brief_state=BriefState.PENDING), name="compression_pending"
            )
        ]

    def __str__(self) -> str:
        return f"{self.phase} of task {self.task_id}, version {self.version}"

    @property
    def covered(self) -> frozenset[int]:
        """The numbers of all findings that it covers, including discarded ones."""
        left_out = (number_of(item["id"]) for item in self.discarded)
        return frozenset((*self.critical, *self.in_brief, *left_out))

    def missed(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return those findings that were added, tagged, linked or decided after this version was made."""
        covered, made_at = self.covered, self.created_at
        return [
            finding
            for finding in findings
            if finding.number not in covered
            or any(at is not None and at > made_at for at in (finding.relabelled_at, finding.resolved_at))
        ]

    def is_received(self) -> bool:
        """Return whether a phase receives it. None follows the last phase, and the next one reads only the
        latest version.
        """
        if HandoffPhase(self.phase).after is None:
            return False
        later = PhaseCompression.objects.filter(task=self.task_id, phase=self.phase, version__gt=self.version)
        return self.consumed_at is not None or not later.exists()

    def read_warnings(self) -> list[ContextWarning]:
        """Return the warnings of the compression, and what an active brief by a model leaves out."""
        left_out = [ContextWarning(LEFT_OUT, self.brief_note)] if self.has_written and self.brief_note else []
        return [*read_warnings(self.warnings), *left_out]

    @property
    def has_written(self) -> bool:
        return self.brief_state == BriefState.IN_FORCE

    @property
    def brief(self) -> str:
        """The active brief."""
        return self.written if self.has_written else self.extract

    @property
    def brief_tokens(self) -> int:
        return self.written_tokens if self.has_written else self.extract_tokens

    @property
    def tokens_after(self) -> int:
        return self.brief_tokens + self.critical_tokens

    @property
    def saved_tokens(self) -> int | None:
        """Tokens that its log entry counts as saved, or None if it has none or does not count.

        Leaving out a finding that matters saves nothing.
        """
        return self.assembly.tokens_saved if self.assembly else None

    @property
    def critical_findings(self) -> list[str]:
        return [finding_key(number) for number in self.critical]


def _tokens(default: int, *, low: int = 0, **options: Any) -> Any:
    limits = [MinValueValidator(low), MaxValueValidator(MAX_BUDGET_TOKENS)]
    return models.PositiveIntegerField(default=default, validators=limits, **options)


def _share(default: float, **options: Any) -> Any:
    limits = [MinValueValidator(0), MaxValueValidator(1)]
    return models.FloatField(default=default, validators=limits, **options)


class HandoffSettings(models.Model):
    """A team's own settings of one hand-off phase, in place of the defaults.

    They can be edited, because each compression keeps the settings it was made with.
    """

    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="handoff_settings")
    phase = models.CharField(max_length=16, choices=HandoffPhase)
    bundle_tokens = _tokens(35_000, help_text="Maximum tokens of the context this phase starts with.")
    findings_tokens = _tokens(
        7_200, help_text="Expected tokens of this phase's findings. More triggers a warning."
    )
    brief_tokens = _tokens(
        450, low=MIN_BUDGET_TOKENS, help_text="Maximum tokens of the brief of this phase's findings."
    )
    critical_tokens = _tokens(
        1_350, help_text="Expected tokens of critical findings. More triggers a warning; they are never cut."
    )
    max_critical = models.PositiveIntegerField(
        default=5,
        validators=[MaxValueValidator(1_000)],
        help_text="Expected number of critical findings. More triggers a warning.",
    )
    key_categories = ArrayField(
        models.CharField(max_length=CATEGORY_MAX),
        default=list,
        blank=True,
        help_text="Comma-separated. Findings in these categories are critical if their confidence is high.",
    )
    critical_above = _share(
        0.9, help_text="A finding in a key category with a higher confidence is critical."
    )
    speculation_below = _share(0.4, help_text="A finding with a lower confidence is left out of the brief.")
    updated_by = models.CharField(max_length=ACTOR_MAX, blank=True, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "hand-off settings"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "phase"], name="handoff_settings_once"),
            models.CheckConstraint(condition=Q(phase__in=HandoffPhase.values), name="handoff_settings_phase"),
        ]

    def __str__(self) -> str:
        return f"{self.phase} of {self.team}"

    def clean(self) -> None:
        """Refuse too many categories."""
        if len(self.key_categories) > MAX_CATEGORIES:
            raise ValidationError({"key_categories": f"must be at most {MAX_CATEGORIES}"})
