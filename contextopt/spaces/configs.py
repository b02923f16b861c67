"""Versioned settings that say how a space's context is assembled."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Self

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, transaction
from django.db.models import F, Q
from django.dispatch import Signal
from django.utils import timezone

from contextopt.engine.settings import (
    MAX_ENCODING_CHARS,
    MAX_NOTES_CHARS,
    MAX_PART_TOKENS,
    MAX_RECORD_LIMIT,
    MAX_STRICTNESS,
    MAX_TOTAL_TOKENS,
    MAX_WINDOW_DAYS,
    MIN_RECORD_TOKENS,
    MIN_RESPONSE_TOKENS,
)
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.engine.validation import UnknownEncoding
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.limits import ACTOR_MAX
from contextopt.people.audit import SYSTEM, note_event
from contextopt.spaces.inputs import ConfigIn, SettingsIn
from contextopt.spaces.models import Space

WINDOW_CHOICES = [(7, "7 days"), (14, "14 days"), (30, "30 days"), (None, "All")]
BUDGET_MODE_CHOICES = [
    ("fixed", "Fixed: fill the budget"),
    ("adaptive", "Adaptive: stop at what helps little"),
]
RECORD_ORDER_CHOICES = [("score", "By score"), ("stable", "Stable: oldest first")]
# Settings whose null means "all".
ALL_ALLOWED = (
    "window_days", "max_records", "question_window_days", "question_max_records", "question_notes_chars",
    "question_record_tokens",
)  # fmt: skip
SETTINGS = (
    "window_days", "max_records", "recency_weight", "frequency_weight", "system_tokens",
    "history_tokens", "response_tokens", "context_tokens", "stage3_context_tokens", "total_tokens",
    "encoding", "record_order", "semantic_weight", "lexical_weight", "neighbour_share",
    "date_weight", "who_weight", "question_window_days", "question_max_records", "question_notes_chars",
    "question_record_tokens", "budget_mode", "adaptive_strictness",
)  # fmt: skip

# Sent with `space`, `settings` and `actor` before settings become active. A receiver refuses them by raising
# Conflict, and returns true if it has checked them.
settings_proposed = Signal()


def _size(default: int, *, low: int = 0) -> Any:
    return models.PositiveIntegerField(
        default=default, validators=[MinValueValidator(low), MaxValueValidator(MAX_PART_TOKENS)]
    )


def _weight(default: str, *, low: Decimal | int = 0, high: Decimal | int = 10, **options: Any) -> Any:
    return models.DecimalField(
        max_digits=5,
        decimal_places=3,
        default=Decimal(default),
        validators=[MinValueValidator(low), MaxValueValidator(high)],
        **options,
    )


def _limit(high: int) -> Any:
    """Return a field for a limit of at least 1; empty means all."""
    return models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(high)],
        help_text="Leave blank for all.",
    )


class ContextConfigQuerySet(models.QuerySet["ContextConfig"]):
    def active(self) -> Self:
        return self.filter(is_active=True)

    @transaction.atomic
    def publish(
        self, *, space: Space, created_by: str, note: str = "", **settings: object
    ) -> "ContextConfig":
        """Add the next version and make it the active one.

        Settings that are not given are copied from the active version.
        """
        config, current = self._next(space, {"created_by": created_by, "note": note, **settings})
        config.is_active = True
        self.filter(space=space).active().update(is_active=False)
        config.save(force_insert=True)
        _recount_after(current, config)
        return config

    @transaction.atomic
    def save_draft(
        self, *, space: Space, created_by: str, note: str = "", **settings: object
    ) -> "ContextConfig":
        """Add the next version without making it the active one. Settings are copied as for `publish`."""
        config, _ = self._next(space, {"created_by": created_by, "note": note, **settings})
        config.is_draft = True
        config.save(force_insert=True)
        return config

    def _next(
        self, space: Space, values: dict[str, object]
    ) -> tuple["ContextConfig", "ContextConfig | None"]:
        """Return the next version, not saved yet, and the active version."""
        space.lock()
        latest = self.filter(space=space).order_by("-version").first()
        current = self.filter(space=space).active().first() or latest
        carried = settings_of(current) if current else {}
        version = latest.version + 1 if latest else 1
        config = self.model(space=space, version=version, **{**carried, **values})
        config.full_clean(validate_constraints=False)
        return config, current


class ContextConfig(models.Model):
    """One immutable version of a space's settings. A trigger refuses changes to anything but its state.

    A draft is a version that was never active. Activating it publishes it.
    """

    space = models.ForeignKey(Space, models.DB_CASCADE, related_name="configs")
    version = models.PositiveIntegerField()
    is_active = models.BooleanField(default=False)
    is_draft = models.BooleanField(default=False, db_default=False)
    window_days = models.PositiveSmallIntegerField(choices=WINDOW_CHOICES, default=14, null=True, blank=True)
    max_records = models.PositiveSmallIntegerField(
        default=20,
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_RECORD_LIMIT)],
        help_text="Leave blank for all.",
    )
    recency_weight = _weight("0.7")
    frequency_weight = _weight("0.3")
    system_tokens = _size(800)
    history_tokens = _size(1_000)
    response_tokens = _size(1_000, low=MIN_RESPONSE_TOKENS)
    context_tokens = _size(2_000)
    stage3_context_tokens = _size(4_000)
    total_tokens = models.PositiveIntegerField(
        null=True, blank=True,
        validators=[MinValueValidator(MIN_RESPONSE_TOKENS), MaxValueValidator(MAX_TOTAL_TOKENS)],
        help_text="Leave blank for the sum of the four parts.",
    )  # fmt: skip
    encoding = models.CharField(max_length=MAX_ENCODING_CHARS, default="cl100k_base")
    record_order = models.CharField(max_length=8, choices=RECORD_ORDER_CHOICES, default="score")
    # Used at stage 5, which ranks by the question and not by date.
    semantic_weight = _weight("9")
    lexical_weight = _weight("4")
    neighbour_share = _weight("0.4", high=1)
    date_weight = _weight("3")
    who_weight = _weight("4")
    question_window_days = _limit(MAX_WINDOW_DAYS)
    question_max_records = _limit(MAX_RECORD_LIMIT)
    question_notes_chars = _limit(MAX_NOTES_CHARS)
    question_record_tokens = models.PositiveIntegerField(
        null=True, blank=True, default=120,
        validators=[MinValueValidator(MIN_RECORD_TOKENS), MaxValueValidator(MAX_PART_TOKENS)],
        help_text="Leave blank for a quarter of the context.",
    )  # fmt: skip
    budget_mode = models.CharField(
        max_length=8, choices=BUDGET_MODE_CHOICES, default="fixed", db_default="fixed"
    )
    adaptive_strictness = _weight("0", low=-MAX_STRICTNESS, high=MAX_STRICTNESS, db_default=Decimal(0))
    note = models.CharField(max_length=200, blank=True)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = ContextConfigQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["space", "version"], name="config_version_once"),
            models.UniqueConstraint(fields=["space"], condition=Q(is_active=True), name="config_active_once"),
            models.CheckConstraint(
                condition=Q(is_active=False) | Q(is_draft=False), name="config_active_is_no_draft"
            ),
            models.CheckConstraint(condition=Q(window_days__in=[7, 14, 30]), name="config_window"),
            models.CheckConstraint(
                condition=Q(max_records__gte=1, max_records__lte=MAX_RECORD_LIMIT), name="config_max_records"
            ),
            models.CheckConstraint(
                condition=Q(response_tokens__gte=MIN_RESPONSE_TOKENS), name="config_response"
            ),
            models.CheckConstraint(
                condition=Q(recency_weight__gte=0, recency_weight__lte=10)
                & Q(frequency_weight__gte=0, frequency_weight__lte=10)
                & Q(semantic_weight__gte=0, semantic_weight__lte=10)
                & Q(lexical_weight__gte=0, lexical_weight__lte=10)
                & Q(neighbour_share__gte=0, neighbour_share__lte=1)
                & Q(date_weight__gte=0, date_weight__lte=10)
                & Q(who_weight__gte=0, who_weight__lte=10),
                name="config_weights",
            ),
            models.CheckConstraint(
                condition=Q(
                    adaptive_strictness__gte=-MAX_STRICTNESS, adaptive_strictness__lte=MAX_STRICTNESS
                ),
                name="config_strictness",
            ),
            models.CheckConstraint(
                condition=Q(total_tokens=None) | Q(total_tokens__gte=F("response_tokens")),
                name="config_total",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.space} v{self.version}"

    def clean(self) -> None:
        """Refuse settings that no assembly could work with."""
        others = self.system_tokens + self.history_tokens + self.response_tokens
        if self.total_tokens is not None and self.total_tokens <= others:
            problem = f"must be more than {others:,}, the sum of system, history and response"
            raise ValidationError({"total_tokens": problem})
        try:
            get_tokenizer(self.encoding)
        except UnknownEncoding as error:
            raise ValidationError({"encoding": error.message}) from error


# The only setting that callers may set to null. Null means the sum of the parts.
NULLABLE = frozenset({"total_tokens"})


def publish_config(*, space: Space, data: ConfigIn, created_by: str) -> ContextConfig:
    """Add the next version and make it the active one, unless it is a draft. Settings not given are carried
    over.

    Raises:
        InvalidInput: no assembly could work with a setting; the error names it.
        BelowMinimum: the settings miss the recall that a question set demands.
    """
    add = draft_settings if data.draft else publish_settings
    try:
        return add(space=space, created_by=created_by, note=data.note, **given_settings(data))
    except ValidationError as error:
        raise InvalidInput.of_model(error) from error


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings that no assembly could work with, without storing them.

    Raises:
        InvalidInput: the error names the setting.
    """
    try:
        ContextConfig(**settings).clean()
    except ValidationError as error:
        raise InvalidInput.of_model(error) from error


def given_settings(data: SettingsIn) -> dict[str, Any]:
    """Return the settings that were given, in the form in which they are stored.

    Raises:
        InvalidInput: a setting is null that must have a value.
    """
    given = data.model_dump(exclude_unset=True, exclude={"note", "draft"})
    for name, value in given.items():
        if value is None and name not in NULLABLE:
            raise InvalidInput.of(name, "must not be null; omit it to keep the current value")
    return {name: None if value == "all" else value for name, value in given.items()}


def publish_settings(
    *, space: Space, created_by: str, note: str = "", at: datetime | None = None, **settings: object
) -> ContextConfig:
    """Publish the next version and log how it differs from the one before.

    `at` backdates the version and its log entry, for example data.

    Raises:
        ValidationError: no assembly could work with a setting.
        BelowMinimum: the settings miss the recall that a question set demands.
        Conflict: other settings were published while these were checked.
    """
    proposed = {**_carried(space), **settings}
    is_checked = propose_settings(space=space, settings=proposed, actor=created_by)
    with transaction.atomic():
        space.lock()
        if is_checked and {**_carried(space), **settings} != proposed:
            raise Conflict("Other settings were published in the meantime. Try again.")
        before = space.configs.active().first()
        config = ContextConfig.objects.publish(
            space=space, created_by=created_by, note=note, created_at=at or timezone.now(), **settings
        )
        _note(space, created_by, "config.published", before, config, at)
    return config


@transaction.atomic
def draft_settings(*, space: Space, created_by: str, note: str = "", **settings: object) -> ContextConfig:
    """Add the next version as a draft, and log how it differs from the active one.

    Raises:
        ValidationError: no assembly could work with a setting.
    """
    before = space.configs.active().first()
    config = ContextConfig.objects.save_draft(space=space, created_by=created_by, note=note, **settings)
    _note(space, created_by, "config.drafted", before, config)
    return config


def propose_settings(*, space: Space, settings: Mapping[str, Any], actor: str) -> bool:
    """Let the receivers of `settings_proposed` check the settings; return whether any did.

    Raises:
        ValidationError: no assembly could work with a setting.
        BelowMinimum: the settings miss the recall that a question set demands.
    """
    ContextConfig(space=space, version=1, **settings).full_clean(validate_constraints=False)
    answers = settings_proposed.send(ContextConfig, space=space, settings=settings, actor=actor)
    return any(is_checked for _, is_checked in answers)


def _recount_after(before: ContextConfig | None, after: ContextConfig) -> None:
    """Have the space's summaries counted again if the encoding changed."""
    if before and before.encoding != after.encoding:
        Space.objects.filter(pk=after.space_id).update(recount_from=0)


def _carried(space: Space) -> dict[str, Any]:
    active = space.configs.active().first()
    return settings_of(active) if active else {}


def settings_of(config: ContextConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in SETTINGS}


def _note(
    space: Space,
    actor: str,
    action: str,
    before: ContextConfig | None,
    after: ContextConfig,
    at: datetime | None = None,
) -> None:
    note_event(
        team_id=space.team_id,
        actor=actor,
        action=action,
        subject=f"{space.slug} v{after.version}",
        before=_version_of(before) if before else None,
        after=_version_of(after),
        at=at,
    )


def _version_of(config: ContextConfig) -> dict[str, Any]:
    return {"version": config.version, **settings_of(config)}


def find_config(space: Space, version: int) -> ContextConfig:
    """Return one version of the space's settings.

    Raises:
        NotFound: the space has no such version.
    """
    config = space.configs.filter(version=version).first()
    if config is None:
        raise NotFound(f"Space {space.slug!r} has no config version {version}.")
    return config


def activate_config(*, space: Space, version: int, actor: str = SYSTEM) -> ContextConfig:
    """Make a draft or an earlier version the active one. Its settings do not change.

    Raises:
        NotFound: the space has no such version.
        BelowMinimum: the version misses the recall that a question set demands.
    """
    proposed = find_config(space, version)
    if not proposed.is_active:
        propose_settings(space=space, settings=settings_of(proposed), actor=actor)
    return _activate(space, version, actor)


@transaction.atomic
def _activate(space: Space, version: int, actor: str) -> ContextConfig:
    space.lock()
    config = find_config(space, version)
    before = space.configs.active().exclude(pk=config.pk).first()
    space.configs.active().exclude(pk=config.pk).update(is_active=False)
    space.configs.filter(pk=config.pk).update(is_active=True, is_draft=False)
    config.is_active, config.is_draft = True, False
    _recount_after(before, config)
    if before:
        _note(space, actor, "config.activated", before, config)
    return config
