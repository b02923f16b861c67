"""The log: one narrow row for each decision of what entered a prompt, and its payload beside it."""

from typing import ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Now

from contextopt.assemblies.ledgers import EntryJson, unpack_entries
from contextopt.engine.prompts.warnings import INSUFFICIENT, ContextWarning, read_warnings
from contextopt.people.models import Team
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.models import Space

# Users, keys and commands are named in other ways, so what the demo wrote is nobody else's.
DEMO_ACTOR = "demo"


class Kind(models.TextChoices):
    """What was made smaller: every kind of saving is an assembly, so that one page shows them all."""

    SPACE = "space", "Space context"
    PHASE = "phase", "Phase filter"
    RETRY = "retry", "Retry delta"
    HANDOFF = "handoff", "Hand-off"


LAST_RECORDS = "the last 10 records"
FULL_CONTEXT = "the full context"
ALL_FINDINGS = "all findings in full"
BASELINES = {
    Kind.SPACE: LAST_RECORDS,
    Kind.PHASE: FULL_CONTEXT,
    Kind.RETRY: FULL_CONTEXT,
    Kind.HANDOFF: ALL_FINDINGS,
}
"""Names of what each kind is compared with. A ledger with a `baseline` of its own says another."""

SLOW_MS = 500
"""The target for an assembly, in milliseconds."""

_CODES = sorted(INSUFFICIENT)

# Two rules, each as a condition of a query and as SQL on rows `a` of the log: which contexts are empty, and
# which savings count. `Assembly.is_empty` and `Assembly.saving_counts` say the same of one row.
EMPTY = Q(kind=Kind.SPACE, stage__gte=3, records_included=0)
EMPTY_SQL = "(a.kind = 'space' AND a.stage >= 3 AND a.records_included = 0)"
# A retry that waits. Rows written before such a retry had nothing to compare with have its full context.
_UNSENT = Q(kind=Kind.RETRY, tokens_after=0)
_UNSENT_SQL = "(a.kind = 'retry' AND a.tokens_after = 0)"
COUNTS = Q(tokens_before__isnull=False) & ~EMPTY & ~_UNSENT & ~Q(warning_codes__overlap=_CODES)
COUNTS_SQL = (
    f"(a.tokens_before IS NOT NULL AND {EMPTY_SQL} IS NOT TRUE AND NOT {_UNSENT_SQL} "
    f"AND NOT a.warning_codes && '{{{','.join(_CODES)}}}'::varchar[])"
)


class AssemblyQuerySet(models.QuerySet["Assembly"]):
    def of(self, team: Team) -> Self:
        return self.filter(team=team)

    def empty(self) -> Self:
        """Contexts of spaces that hold no record, though their stage takes records."""
        return self.filter(EMPTY)

    def warned(self, code: str) -> Self:
        """Rows that carry a warning. The second condition is the index's."""
        return self.filter(warning_codes__contains=[code]).exclude(warning_codes=[])

    def slow(self) -> Self:
        """Rows that took longer than the target."""
        return self.filter(assembly_ms__gt=SLOW_MS)

    def counted(self) -> Self:
        """Rows that count as a saving, or as a cost."""
        return self.filter(COUNTS)

    def with_saving(self) -> Self:
        """Annotate `saved`, the tokens saved, and `empty`."""
        saved = Case(When(COUNTS, then=F("tokens_before") - F("tokens_after")))
        return self.annotate(
            saved=saved, empty=Case(When(EMPTY, then=Value(value=True)), default=Value(value=False))
        )

    def newest_first(self) -> Self:
        return self.order_by("-created_at", "-id")


class Assembly(models.Model):
    """One decision, in numbers. Rows never change; a database trigger refuses it.

    `tokens_before` is what would have been sent without us, the baseline; none where there is none.
    `tokens_after` is what was sent. The saving is their difference, and may be negative.
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
            # The list of empty contexts, newest first.
            models.Index(fields=["team", "-created_at", "-id"], condition=EMPTY, name="assembly_empty"),
            # The list of contexts with a warning, newest first.
            models.Index(
                fields=["team", "-created_at", "-id"],
                condition=~Q(warning_codes=[]),
                name="assembly_warned",
            ),
            # The list of assemblies over the target, newest first.
            models.Index(
                fields=["team", "-created_at", "-id"],
                condition=Q(assembly_ms__gt=SLOW_MS),
                name="assembly_slow",
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
        """Tokens used ÷ available, 0 to 1, of a space's context; none when nothing was available."""
        if self.kind != Kind.SPACE or not self.tokens_available:
            return None
        return self.tokens_after / self.tokens_available

    @property
    def is_empty(self) -> bool:
        """No record is in it, though its stage takes records."""
        return self.kind == Kind.SPACE and (self.stage or 0) >= 3 and not self.records_included

    @property
    def not_counted(self) -> str:
        """Say why this counts as no saving; empty where it counts."""
        if self.is_empty:
            return "the context is empty"
        if self.kind == Kind.RETRY and not self.tokens_after:
            return "nothing was sent"
        if codes := INSUFFICIENT.intersection(self.warning_codes):
            return f"the answer may be missing ({', '.join(sorted(codes)).replace('_', ' ')})"
        return "" if self.tokens_before is not None else "nothing to compare with"

    @property
    def saving_counts(self) -> bool:
        return not self.not_counted

    @property
    def tokens_saved(self) -> int | None:
        """Tokens fewer than the baseline, negative when it cost more; none where it does not count."""
        if self.tokens_before is None or not self.saving_counts:
            return None
        return self.tokens_before - self.tokens_after


class AssemblyPayload(models.Model):
    """What an assembly said and why: its text, ledger, and the settings in force."""

    assembly = models.OneToOneField(Assembly, models.DB_CASCADE, related_name="payload", primary_key=True)
    text = models.TextField()
    # None says that there was no comparison, which an empty text would not.
    baseline_text = models.TextField(  # noqa: DJ001
        null=True, help_text="text that would have been sent without Contextopt"
    )
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
        """Warnings for the reader of the context, in whichever form they were stored."""
        return read_warnings(self.ledger.get("warnings", ()))
