"""The log: one narrow row for each decision on a prompt's content, with its payload beside it."""

from collections.abc import Iterable
from typing import Any, ClassVar, Self, TypedDict, cast

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Now

from contextopt.engine.placement.choice import Split
from contextopt.engine.settings import HEADER_STAGE, LAST_RECORDS_STAGE
from contextopt.engine.text.modeltokens import tokenizer_of_log
from contextopt.engine.text.tokens import FactorSource, Tokenizer, get_tokenizer
from contextopt.engine.values import INSUFFICIENT, Certificate, ContextWarning, read_warnings
from contextopt.limits import ACTOR_MAX, MODEL_MAX
from contextopt.people.models import Team
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.models import Space

# Users, keys and commands have other names, so only the demo can have written these rows.
DEMO_ACTOR = "demo"
CONVERSATION_MAX = 200


class Kind(models.TextChoices):
    """The kinds of saving. Each is an assembly, so that one page shows them all."""

    SPACE = "space", "Space context"
    PHASE = "phase", "Phase filter"
    RETRY = "retry", "Retry delta"
    HANDOFF = "handoff", "Hand-off"
    HINT = "hint", "Strategy hint"
    AGENT = "agent", "Agent context"


LAST_RECORDS = "the last 10 records"
FIXED_BUDGET = "the same question with a fixed budget"
FULL_CONTEXT = "the full context"
ALL_FINDINGS = "all findings in full"
NO_HINT = "no hint"
BASELINES = {
    Kind.SPACE: LAST_RECORDS,
    Kind.PHASE: FULL_CONTEXT,
    Kind.RETRY: FULL_CONTEXT,
    Kind.HANDOFF: ALL_FINDINGS,
    Kind.HINT: NO_HINT,
    Kind.AGENT: FULL_CONTEXT,
}
"""The name of each kind's baseline. A ledger may name another in its own `baseline`."""

PLACEMENT_CHOICES = (("system", "System prompt"), ("tail", "Before the question"), ("append", "Appended"))

NO_QUESTION_KEPT = "question_not_kept"
"""In a logged request: a question was asked, but the space's gateway policy keeps only sizes."""

SPLIT = ("prompt_tokens", "cached_tokens", "cacheable_tokens")
"""The columns of `Assembly.split`: a prompt's tokens, those in the cache, and those that enter it."""

SLOW_MS = 500
"""The target for an assembly, in milliseconds."""

_CODES = sorted(INSUFFICIENT)

# Two rules, each as a query condition and as SQL on log rows `a`: which contexts are empty, and which savings
# count. `Assembly.is_empty` and `Assembly.saving_counts` apply the same rules to one row.
EMPTY = Q(kind=Kind.SPACE, stage__gte=LAST_RECORDS_STAGE, records_included=0)
EMPTY_SQL = f"(a.kind = 'space' AND a.stage >= {LAST_RECORDS_STAGE} AND a.records_included = 0)"
UNDELIVERED = Q(awaits_delivery=True, is_sent=False)
UNDELIVERED_SQL = "(a.awaits_delivery AND NOT a.is_sent)"
# A retry that waits. Older rows still have its full context as their baseline.
_UNSENT = Q(kind=Kind.RETRY, tokens_after=0)
_UNSENT_SQL = "(a.kind = 'retry' AND a.tokens_after = 0)"
COUNTS = Q(is_sent=True, tokens_before__isnull=False) & ~EMPTY & ~_UNSENT & ~Q(warning_codes__overlap=_CODES)
COUNTS_SQL = (
    f"(a.is_sent AND a.tokens_before IS NOT NULL AND {EMPTY_SQL} IS NOT TRUE AND NOT {_UNSENT_SQL} "
    f"AND NOT a.warning_codes && '{{{','.join(_CODES)}}}'::varchar[])"
)


class AssemblyQuerySet(models.QuerySet["Assembly"]):
    def of(self, team: Team) -> Self:
        return self.filter(team=team)

    def empty(self) -> Self:
        """Return contexts of spaces without a record, though their stage takes records."""
        return self.filter(EMPTY)

    def not_delivered(self) -> Self:
        """Return contexts of hooks whose delivery was not confirmed."""
        return self.filter(UNDELIVERED)

    def warned(self, code: str) -> Self:
        """Return rows with this warning. The second condition lets the index be used."""
        return self.filter(warning_codes__contains=[code]).exclude(warning_codes=[])

    def slow(self) -> Self:
        """Return rows that took longer than the target."""
        return self.filter(assembly_ms__gt=SLOW_MS)

    def with_saving(self) -> Self:
        """Annotate `saved`, the tokens saved, `empty` and `undelivered`."""
        saved = Case(When(COUNTS, then=F("tokens_before") - F("tokens_after")))
        return self.annotate(
            saved=saved,
            empty=Case(When(EMPTY, then=Value(value=True)), default=Value(value=False)),
            undelivered=Case(When(UNDELIVERED, then=Value(value=True)), default=Value(value=False)),
        )

    def for_replay(self) -> Self:
        """Join everything that a replay or an explanation reads."""
        return self.select_related("payload", "space", "config", "team")

    def newest_first(self) -> Self:
        return self.order_by("-created_at", "-id")


class Assembly(models.Model):
    """One decision, in numbers. A trigger refuses changes, except to forget a deleted task, or when a newer
    hand-off replaces one that was not read.

    `tokens_before` is the baseline: what would have been sent without Contextopt, or none without a baseline.
    `tokens_after` is what was sent, including what earlier blocks carry. The saving is the difference and may
    be negative.
    """

    # Indexes below begin with team and space. An index on each alone would slow every insert.
    team = models.ForeignKey(Team, models.DB_CASCADE, related_name="assemblies", db_index=False)
    space = models.ForeignKey(Space, models.DB_CASCADE, null=True, related_name="assemblies", db_index=False)
    config = models.ForeignKey(ContextConfig, models.DB_CASCADE, null=True, related_name="assemblies")
    # The task of an agent that this was sent for, if the caller named one.
    task = models.ForeignKey(
        "contextopt.Task", models.DB_SET_NULL, null=True, related_name="assemblies", db_index=False
    )
    kind = models.CharField(max_length=8, choices=Kind, default=Kind.SPACE)
    stage = models.PositiveSmallIntegerField(null=True)
    phase = models.CharField(max_length=64, blank=True)
    model = models.CharField(max_length=MODEL_MAX, blank=True)
    conversation = models.CharField(max_length=CONVERSATION_MAX, blank=True)
    actor = models.CharField(max_length=ACTOR_MAX, blank=True)
    as_of = models.DateTimeField()
    created_at = models.DateTimeField(db_default=Now())
    records_filtered = models.PositiveIntegerField(default=0)
    records_included = models.PositiveIntegerField(default=0)
    over_record_limit = models.PositiveIntegerField(default=0)
    over_budget = models.PositiveIntegerField(default=0)
    duplicates = models.PositiveIntegerField(default=0, db_default=0)
    low_relevance = models.PositiveIntegerField(default=0, db_default=0)
    outside_window = models.PositiveIntegerField(default=0)
    deleted = models.PositiveIntegerField(default=0)
    tokens_before = models.PositiveIntegerField(null=True)
    tokens_after = models.PositiveIntegerField()
    tokens_available = models.PositiveIntegerField()
    total_tokens = models.PositiveIntegerField(default=0)
    system_tokens = models.PositiveIntegerField(default=0)
    history_tokens = models.PositiveIntegerField(default=0)
    response_tokens = models.PositiveIntegerField(default=0)
    # Where the context stands in the prompt. Empty if the request names neither placement nor conversation.
    placement = models.CharField(
        max_length=6, choices=PLACEMENT_CHOICES, blank=True, db_default="", default=""
    )
    # Tokens of earlier blocks that stay in the prompt. `tokens_after` includes them.
    carried_tokens = models.PositiveIntegerField(default=0, db_default=0)
    # Tokens of the prompt, as far as the request states its parts: all, those of the beginning that the
    # conversation's last prompt shares, those of it that the provider's cache should still hold, and those
    # that enter the cache. The last two depend on the model's minimum and lifetime of that day.
    prompt_tokens = models.PositiveIntegerField(null=True)
    shared_prefix_tokens = models.PositiveIntegerField(null=True)
    cached_tokens = models.PositiveIntegerField(null=True)
    cacheable_tokens = models.PositiveIntegerField(null=True)
    truncated = models.BooleanField(default=False)
    # False for what the gateway would have inserted into a prompt that it only audited, and for hand-offs
    # that no phase received, and contexts of hooks until their delivery is confirmed. It is the only figure
    # that may still change.
    is_sent = models.BooleanField(default=True, db_default=True)
    # A hook asked for it, and says so when it has passed the text on.
    awaits_delivery = models.BooleanField(default=False, db_default=False)
    # A saving doesn't count if one of these is in `engine.values.INSUFFICIENT`.
    warning_codes = ArrayField(models.CharField(max_length=32), default=list, db_default=[], blank=True)
    assembly_ms = models.FloatField()
    encoding = models.CharField(max_length=64)
    tokenizer_version = models.CharField(max_length=64)
    sha256 = models.CharField(max_length=64)
    # For a model without a tokenizer of its own: the tokens of the text in the encoding, and the factor that
    # makes them those of the model at most, and on average.
    counted_tokens = models.PositiveIntegerField(null=True)
    factor = models.FloatField(null=True)
    factor_mean = models.FloatField(null=True)
    factor_source = models.CharField(max_length=7, blank=True, db_default="", default="")
    factor_prompts = models.PositiveIntegerField(null=True)
    is_demo = models.BooleanField(default=False)

    objects = AssemblyQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "assemblies"
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(kind__in=Kind.values), name="assembly_kind"),
            models.CheckConstraint(
                condition=Q(tokens_after__lte=F("tokens_available")), name="assembly_within_budget"
            ),
            models.CheckConstraint(
                condition=Q(
                    records_filtered=F("records_included")
                    + F("over_record_limit")
                    + F("over_budget")
                    + F("duplicates")
                    + F("low_relevance")
                ),
                name="assembly_adds_up",
            ),
            models.CheckConstraint(
                condition=Q(placement__in=["", *dict(PLACEMENT_CHOICES)]), name="assembly_placement"
            ),
            models.CheckConstraint(
                condition=Q(
                    prompt_tokens=None, shared_prefix_tokens=None, cached_tokens=None, cacheable_tokens=None
                )
                | Q(
                    cached_tokens__lte=F("shared_prefix_tokens"),
                    shared_prefix_tokens__lte=F("prompt_tokens"),
                    cacheable_tokens__lte=F("prompt_tokens") - F("cached_tokens"),
                ),
                name="assembly_prefix",
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
                fields=["team", "-created_at", "-id"], condition=~Q(warning_codes=[]), name="assembly_warned"
            ),
            # The list of assemblies over the target, newest first.
            models.Index(
                fields=["team", "-created_at", "-id"],
                condition=Q(assembly_ms__gt=SLOW_MS),
                name="assembly_slow",
            ),
            # Finds the agent contexts that a purged record may be in.
            models.Index(
                fields=["team", "-created_at", "-id"], condition=Q(kind="agent"), name="assembly_agent"
            ),
            # The contexts of one task, in order.
            models.Index(
                fields=["task", "created_at", "id"], condition=Q(task__isnull=False), name="assembly_task"
            ),
            # Lists the contexts that never arrived.
            models.Index(
                fields=["team", "-created_at", "-id"],
                condition=Q(awaits_delivery=True, is_sent=False),
                name="assembly_undelivered",
            ),
            # Finds a prompt by the hash of its text.
            models.Index(fields=["team", "sha256"], name="assembly_hash"),
        ]

    def __str__(self) -> str:
        return f"assembly {self.pk}"

    @property
    def config_version(self) -> int | None:
        return self.config.version if self.config else None

    @property
    def stored_payload(self) -> "AssemblyPayload | None":
        """The text and the ledger; None once they are deleted."""
        return getattr(self, "payload", None)

    @property
    def new_tokens(self) -> int:
        """The tokens of its own text, without what earlier blocks carry."""
        return self.tokens_after - self.carried_tokens

    @property
    def tokens_at_most(self) -> int:
        """The tokens of its own text that the model is billed for at most."""
        return self.new_tokens

    @property
    def certificate(self) -> Certificate:
        """The proof of its size, as it was given to the caller."""
        return Certificate(
            self.new_tokens if self.counted_tokens is None else self.counted_tokens,
            self.encoding,
            self.tokenizer_version,
            self.sha256,
            self.carried_tokens,
            self.model,
            self.factor,
            self.factor_mean,
            cast("FactorSource | None", self.factor_source or None),
            self.factor_prompts,
            self.new_tokens,
        )

    @property
    def mean_share(self) -> float:
        """The tokens that the model is billed for on average, as a share of those at most."""
        return self.factor_mean / self.factor if self.factor and self.factor_mean else 1.0

    @property
    def records_dropped(self) -> int:
        return self.records_filtered - self.records_included

    @property
    def compression_ratio(self) -> float | None:
        """Included ÷ filtered, 0 to 1, or none if nothing was filtered."""
        return self.records_included / self.records_filtered if self.records_filtered else None

    @property
    def shared_share(self) -> float | None:
        """The share of the prompt that repeats the conversation's last one, 0 to 1, or none if unknown."""
        if self.prompt_tokens is None or self.shared_prefix_tokens is None:
            return None
        return self.shared_prefix_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def split(self) -> Split | None:
        """The prompt divided by what the provider's cache does with it; None outside of a conversation."""
        return Split.of(*(getattr(self, name) for name in SPLIT))

    @property
    def utilisation(self) -> float | None:
        """Tokens used ÷ available in a space's context, 0 to 1, or none if nothing was available."""
        if self.kind != Kind.SPACE or not self.tokens_available:
            return None
        return self.tokens_after / self.tokens_available

    @property
    def is_empty(self) -> bool:
        """Whether it has no record, though its stage takes records."""
        return self.kind == Kind.SPACE and (self.stage or 0) > HEADER_STAGE and not self.records_included

    @property
    def not_delivered(self) -> bool:
        """Whether a hook asked for it and has not said that it arrived."""
        return self.awaits_delivery and not self.is_sent

    @property
    def not_counted(self) -> str:
        """The reason why this doesn't count as a saving, or an empty text if it counts."""
        if self.not_delivered:
            return "its delivery was not confirmed"
        if not self.is_sent:
            is_handoff = self.kind == Kind.HANDOFF
            return "no phase received it" if is_handoff else "the prompt was audited and went on without it"
        if self.is_empty:
            return "the context is empty"
        if self.kind == Kind.RETRY and not self.tokens_after:
            return "nothing was sent"
        if codes := INSUFFICIENT.intersection(self.warning_codes):
            return f"the answer may be missing ({', '.join(sorted(codes)).replace('_', ' ')})"
        if self.tokens_before is not None:
            return ""
        is_empty_handoff = self.kind == Kind.HANDOFF and not self.tokens_after
        return "nothing was sent" if is_empty_handoff else "nothing to compare with"

    @property
    def saving_counts(self) -> bool:
        return not self.not_counted

    @property
    def tokens_saved(self) -> int | None:
        """Tokens saved against the baseline, negative if it cost more, or none if it doesn't count."""
        if self.tokens_before is None or not self.saving_counts:
            return None
        return self.tokens_before - self.tokens_after


class EntryJson(TypedDict):
    """One candidate in the ledger: its score from 0 to 10, the score's parts, and whether it was kept and
    why.
    """

    id: int
    source: str
    external_id: str
    score: float
    parts: dict[str, float]
    tokens: int
    pinned: bool
    kept: bool
    reason: str
    duplicate_of: int | None


# A ledger is stored as one list per field. In a list of entries, field names would take most of the space.
ENTRY_FIELDS = ("id", "source", "external_id", "score", "tokens", "pinned", "kept", "reason")

type Columns = dict[str, Any]


def pack_entries(entries: Iterable[EntryJson]) -> Columns:
    """Turn entries into columns. All entries of a ledger have the same score parts."""
    rows = list(entries)
    columns: Columns = {name: [row[name] for row in rows] for name in ENTRY_FIELDS}  # type: ignore[literal-required]
    parts = rows[0]["parts"] if rows else {}
    # Few ledgers have duplicates, so most omit the column.
    if any(row["duplicate_of"] for row in rows):
        columns["duplicate_of"] = [row["duplicate_of"] for row in rows]
    return {**columns, "parts": {name: [row["parts"][name] for row in rows] for name in parts}}


def unpack_entries(columns: Columns) -> list[EntryJson]:
    """Turn columns back into entries, in their order."""
    parts: dict[str, list[float]] = columns["parts"]
    originals = columns.get("duplicate_of", {})
    return [
        {
            **dict(zip(ENTRY_FIELDS, values, strict=True)),  # type: ignore[typeddict-item]
            "duplicate_of": originals[index] if originals else None,
            "parts": {name: column[index] for name, column in parts.items()},
        }
        for index, values in enumerate(zip(*(columns[name] for name in ENTRY_FIELDS), strict=True))
    ]


class AssemblyPayload(models.Model):
    """The content of an assembly and the reasons for it: text, ledger and settings."""

    assembly = models.OneToOneField(Assembly, models.DB_CASCADE, related_name="payload", primary_key=True)
    text = models.TextField()
    # None means that there was no baseline; an empty text is a baseline that sends nothing.
    baseline_text = models.TextField(  # noqa: DJ001
        null=True, help_text="text that would have been sent without Contextopt"
    )
    ledger = models.JSONField()
    config = models.JSONField()
    request = models.JSONField(default=dict)
    # The records named in the text, the baseline or the ledger. A purge searches here.
    record_ids = ArrayField(models.BigIntegerField(), default=list)
    # The engine's inputs, packed. None for other kinds, and for assemblies from before they were logged.
    givens = models.BinaryField(null=True)
    purged_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"payload of assembly {self.pk}"

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that counted it, with the factors of then.

        Raises:
            UnknownEncoding: it is not available.
        """
        assembly = self.assembly
        return tokenizer_of_log(
            get_tokenizer(assembly.encoding), assembly.model, self.ledger.get("token_factors")
        )

    @property
    def entries(self) -> list[EntryJson]:
        """The ledger's candidates in rank order: all that were kept, and the best of the dropped."""
        return unpack_entries(self.ledger["candidates"])

    @property
    def warnings(self) -> list[ContextWarning]:
        """Warnings for the reader of the context, in whichever form they were stored."""
        return read_warnings(self.ledger.get("warnings", ()))
