"""The log: one narrow row for each decision of what entered a prompt, and its payload beside it."""

from typing import ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from contextopt.engine.warnings import ContextWarning, read_warnings
from contextopt.models.access import Team
from contextopt.models.configs import ContextConfig
from contextopt.models.ledgers import EntryJson, unpack_entries
from contextopt.models.spaces import Space

# Users, keys and commands are named in other ways, so what the demo wrote is nobody else's.
DEMO_ACTOR = "demo"


class Kind(models.TextChoices):
    """What was made smaller: every kind of saving is an assembly, so that one page shows them all."""

    SPACE = "space", "Space context"
    PHASE = "phase", "Phase filter"
    RETRY = "retry", "Retry delta"
    HANDOFF = "handoff", "Hand-off"


class AssemblyQuerySet(models.QuerySet["Assembly"]):
    def of(self, team: Team) -> Self:
        return self.filter(team=team)

    def newest_first(self) -> Self:
        return self.order_by("-created_at", "-id")


class Assembly(models.Model):
    """One decision, in numbers. Rows never change; a database trigger refuses it.

    `tokens_before` is what would have been sent without us (stage 3 for a space), `tokens_after` what was;
    the saving is their difference and may be negative.
    """

    # Team and space begin an index below; another one each would cost every insert.
    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="assemblies", db_index=False)
    space = models.ForeignKey(Space, models.DB_CASCADE, null=True, related_name="assemblies", db_index=False)
    config = models.ForeignKey(ContextConfig, models.DB_CASCADE, null=True, related_name="assemblies")
    kind = models.CharField(max_length=8, choices=Kind, default=Kind.SPACE)
    stage = models.PositiveSmallIntegerField(null=True)
    phase = models.CharField(max_length=64, blank=True)
    model = models.CharField(max_length=120, blank=True)
    conversation = models.CharField(max_length=200, blank=True)
    actor = models.CharField(max_length=160, blank=True)
    as_of = models.DateTimeField()
    created_at = models.DateTimeField(db_default=Now())
    records_filtered = models.PositiveIntegerField(default=0)
    records_included = models.PositiveIntegerField(default=0)
    over_record_limit = models.PositiveIntegerField(default=0)
    over_budget = models.PositiveIntegerField(default=0)
    duplicates = models.PositiveIntegerField(default=0, db_default=0)
    outside_window = models.PositiveIntegerField(default=0)
    deleted = models.PositiveIntegerField(default=0)
    tokens_before = models.PositiveIntegerField(null=True)
    tokens_after = models.PositiveIntegerField()
    tokens_available = models.PositiveIntegerField()
    total_tokens = models.PositiveIntegerField(default=0)
    system_tokens = models.PositiveIntegerField(default=0)
    history_tokens = models.PositiveIntegerField(default=0)
    response_tokens = models.PositiveIntegerField(default=0)
    truncated = models.BooleanField(default=False)
    # A saving does not count where one of `engine.warnings.INSUFFICIENT` is among them.
    warning_codes = ArrayField(models.CharField(max_length=32), default=list, db_default=[], blank=True)
    assembly_ms = models.FloatField()
    encoding = models.CharField(max_length=64)
    tokenizer_version = models.CharField(max_length=64)
    sha256 = models.CharField(max_length=64)
    is_demo = models.BooleanField(default=False)

    objects = AssemblyQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "assemblies"
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(kind__in=Kind.values), name="assembly_kind"),
            models.CheckConstraint(
                condition=Q(tokens_after__lte=models.F("tokens_available")), name="assembly_within_budget"
            ),
            models.CheckConstraint(
                condition=Q(
                    records_filtered=models.F("records_included")
                    + models.F("over_record_limit")
                    + models.F("over_budget")
                    + models.F("duplicates")
                ),
                name="assembly_adds_up",
            ),
        ]
        indexes: ClassVar = [
            # Lists and charts of a team, newest first.
            models.Index(fields=["team", "-created_at", "-id"], name="assembly_newest"),
            # The same for one space.
            models.Index(fields=["space", "-created_at", "-id"], name="assembly_space_newest"),
            # The prompts of one conversation.
            models.Index(
                fields=["team", "conversation", "-created_at", "-id"],
                condition=~Q(conversation=""),
                name="assembly_conversation",
            ),
            # Look-up of a prompt by the hash of its text.
            models.Index(fields=["team", "sha256"], name="assembly_hash"),
        ]

    def __str__(self) -> str:
        return f"assembly {self.pk}"

    @property
    def records_dropped(self) -> int:
        return self.records_filtered - self.records_included

    @property
    def compression_ratio(self) -> float | None:
        """Included ÷ filtered, 0 to 1; none when nothing was filtered."""
        return self.records_included / self.records_filtered if self.records_filtered else None

    @property
    def utilisation(self) -> float | None:
        """Tokens used ÷ available, 0 to 1; none when nothing was available."""
        return self.tokens_after / self.tokens_available if self.tokens_available else None

    @property
    def tokens_saved(self) -> int | None:
        """Tokens fewer than without us; negative when it cost more."""
        return None if self.tokens_before is None else self.tokens_before - self.tokens_after


class AssemblyPayload(models.Model):
    """What an assembly said and why: its text, ledger, and the settings in force."""

    assembly = models.OneToOneField(Assembly, models.DB_CASCADE, related_name="payload", primary_key=True)
    text = models.TextField()
    # None says that there was no comparison, which an empty text would not.
    baseline_text = models.TextField(null=True, help_text="what stage 3 would have sent")  # noqa: DJ001
    ledger = models.JSONField()
    config = models.JSONField()
    request = models.JSONField(default=dict)
    # The records named in the text, the baseline or the ledger: a purge looks for its record here.
    record_ids = ArrayField(models.BigIntegerField(), default=list)
    purged_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"payload of assembly {self.pk}"

    @property
    def entries(self) -> list[EntryJson]:
        """The candidates that the ledger names: all the kept and the best of the dropped, in rank order."""
        return unpack_entries(self.ledger["candidates"])

    @property
    def warnings(self) -> list[ContextWarning]:
        """What the reader of the context should know, in whichever form it was stored."""
        return read_warnings(self.ledger.get("warnings", ()))
