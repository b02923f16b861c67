"""Versioned settings that say how a space's context is assembled."""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from django.db import models, transaction
from django.db.models import Q
from django.db.models.fields.json import KeyTransform
from django.dispatch import Signal
from django.utils import timezone

from contextopt.engine.settings import SETTINGS, read_values
from contextopt.engine.settings import ContextConfig as Settings
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.engine.validation import InvalidValue, check_choice
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.limits import ACTOR_MAX
from contextopt.people.audit import SYSTEM, note_event
from contextopt.spaces.inputs import ConfigIn, SettingsIn
from contextopt.spaces.models import Space
from contextopt.spaces.presets import PRESETS

if TYPE_CHECKING:
    _SettingsField = models.JSONField[Settings, Settings]
else:
    _SettingsField = models.JSONField

# Sent with `space`, `settings` and `actor` before settings become active. A receiver refuses them by raising
# Conflict, and returns true if it has checked them.
settings_proposed = Signal()

# Most spaces of a team have none, or share them.
PATTERNS_MAX = 50


@lru_cache(maxsize=1_000)
def parse_settings(stored: str) -> Settings:
    """Read the stored JSON object. The last ones are kept, because each assembly needs its space's."""
    return Settings.from_json(json.loads(stored))


class SettingsField(_SettingsField):
    """The settings of a space as one JSON object. A setting that it lacks has its default."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        if value is None or isinstance(expression, KeyTransform):
            return super().from_db_value(value, expression, connection)
        return parse_settings(value)

    def to_python(self, value: Any) -> Any:
        return Settings.from_json(value) if isinstance(value, dict) else value

    def get_db_prep_value(self, value: Any, *args: Any, **options: Any) -> Any:
        stored = value.to_stored() if isinstance(value, Settings) else value
        return super().get_db_prep_value(stored, *args, **options)

    def deconstruct(self) -> Any:
        """Let migrations know only the column, so that a new setting or default needs none."""
        name, _, args, options = super().deconstruct()
        return name, "django.db.models.JSONField", args, {**options, "default": dict}


class ContextConfigQuerySet(models.QuerySet["ContextConfig"]):
    def active(self) -> Self:
        return self.filter(is_active=True)

    def tool_patterns(self, team_id: int, space: str | None = None) -> str:
        """Return the patterns of what the team's tools add to prompts, one a line: those of one space, or of
        all of the team's.
        """
        rows = self.active().filter(space__team=team_id).exclude(settings__tool_patterns=None)
        rows = rows.filter(space__slug=space) if space else rows
        found = rows.order_by().values_list("settings__tool_patterns", flat=True).distinct()
        return "\n".join(sorted(filter(None, found[:PATTERNS_MAX])))

    @transaction.atomic
    def publish(
        self,
        *,
        space: Space,
        created_by: str,
        note: str = "",
        created_at: datetime | None = None,
        **settings: object,
    ) -> "ContextConfig":
        """Add the next version and make it the active one.

        Settings that are not given are copied from the active version.

        Raises:
            InvalidInput: no assembly could work with a setting; the error names it.
        """
        config, current = self._next(space, settings, created_by, note)
        config.is_active, config.created_at = True, created_at or config.created_at
        self.filter(space=space).active().update(is_active=False)
        config.save(force_insert=True)
        _recount_after(current, config)
        return config

    @transaction.atomic
    def save_draft(
        self, *, space: Space, created_by: str, note: str = "", **settings: object
    ) -> "ContextConfig":
        """Add the next version without making it the active one. Settings are copied as for `publish`."""
        config, _ = self._next(space, settings, created_by, note)
        config.is_draft = True
        config.save(force_insert=True)
        return config

    def _next(
        self, space: Space, changes: Mapping[str, object], created_by: str, note: str
    ) -> tuple["ContextConfig", "ContextConfig | None"]:
        """Return the next version, not saved yet, and the active version."""
        space.lock()
        latest = self.filter(space=space).order_by("-version").first()
        current = self.filter(space=space).active().first() or latest
        config = self.model(
            space=space,
            version=latest.version + 1 if latest else 1,
            settings=change_settings(current.settings if current else Settings(), changes),
            created_by=created_by,
            note=note,
        )
        config.full_clean(exclude=["settings"], validate_constraints=False)
        return config, current


class ContextConfig(models.Model):
    """One immutable version of a space's settings. A trigger refuses changes to anything but its state.

    A draft is a version that was never active. Activating it publishes it.
    """

    space = models.ForeignKey(Space, models.DB_CASCADE, related_name="configs")
    version = models.PositiveIntegerField()
    is_active = models.BooleanField(default=False)
    is_draft = models.BooleanField(default=False, db_default=False)
    settings = SettingsField(default=Settings)
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
        ]

    def __str__(self) -> str:
        return f"{self.space} v{self.version}"


def publish_config(*, space: Space, data: ConfigIn, created_by: str) -> ContextConfig:
    """Add the next version and make it the active one, unless it is a draft. Settings not given are carried
    over.

    Raises:
        InvalidInput: no assembly could work with a setting; the error names it.
        BelowMinimum: the settings miss the recall that a question set demands.
    """
    add = draft_settings if data.draft else publish_settings
    preset = PRESETS[data.preset].settings if data.preset else {}
    return add(space=space, created_by=created_by, note=data.note, **{**preset, **given_settings(data)})


def change_settings(settings: Settings, changes: Mapping[str, object]) -> Settings:
    """Return the settings with these changes.

    Raises:
        InvalidInput: no assembly could work with a setting; the error names it.
    """
    try:
        changed = settings.replace(**read_values(changes))
        for name, value in changed.values().items():
            if choices := SETTINGS[name].choices:
                check_choice(name, value, tuple(choices))
        others = changed.system_tokens + changed.history_tokens + changed.response_tokens
        if changed.total_tokens is not None and changed.total_tokens <= others:
            problem = f"must be more than {others:,}, the sum of system, history and response"
            raise InvalidValue("total_tokens", problem)
        get_tokenizer(changed.encoding)
    except InvalidValue as error:
        raise InvalidInput.of(error.field, error.message) from error
    return changed


def given_settings(data: SettingsIn) -> dict[str, Any]:
    """Return the settings that were given, in the form in which they are stored.

    Raises:
        InvalidInput: a setting is null that must have a value.
    """
    given = data.model_dump(exclude_unset=True, exclude={"note", "draft", "preset"})
    for name, value in given.items():
        if value is None and not SETTINGS[name].is_null:
            raise InvalidInput.of(name, "must not be null; omit it to keep the current value")
    return {name: None if value == "all" else value for name, value in given.items()}


def publish_settings(
    *, space: Space, created_by: str, note: str = "", at: datetime | None = None, **settings: object
) -> ContextConfig:
    """Publish the next version and log how it differs from the one before.

    `at` backdates the version and its log entry, for example data.

    Raises:
        InvalidInput: no assembly could work with a setting; the error names it.
        BelowMinimum: the settings miss the recall that a question set demands.
        Conflict: other settings were published while these were checked.
    """
    proposed = change_settings(_carried(space), settings)
    is_checked = propose_settings(space=space, settings=proposed, actor=created_by)
    with transaction.atomic():
        space.lock()
        if is_checked and change_settings(_carried(space), settings) != proposed:
            raise Conflict("Other settings were published in the meantime. Try again.")
        before = space.configs.active().first()
        config = ContextConfig.objects.publish(
            space=space, created_by=created_by, note=note, created_at=at, **settings
        )
        _note(space, created_by, "config.published", before, config, at)
    return config


@transaction.atomic
def draft_settings(*, space: Space, created_by: str, note: str = "", **settings: object) -> ContextConfig:
    """Add the next version as a draft, and log how it differs from the active one.

    Raises:
        InvalidInput: no assembly could work with a setting; the error names it.
    """
    before = space.configs.active().first()
    config = ContextConfig.objects.save_draft(space=space, created_by=created_by, note=note, **settings)
    _note(space, created_by, "config.drafted", before, config)
    return config


def propose_settings(*, space: Space, settings: Settings, actor: str) -> bool:
    """Let the receivers of `settings_proposed` check the settings; return whether any did.

    Raises:
        BelowMinimum: the settings miss the recall that a question set demands.
    """
    answers = settings_proposed.send(ContextConfig, space=space, settings=settings, actor=actor)
    return any(is_checked for _, is_checked in answers)


def _recount_after(before: ContextConfig | None, after: ContextConfig) -> None:
    """Have the space's summaries counted again if the encoding changed."""
    if before and before.settings.encoding != after.settings.encoding:
        Space.objects.filter(pk=after.space_id).update(recount_from=0)


def _carried(space: Space) -> Settings:
    active = space.configs.active().first()
    return active.settings if active else Settings()


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
    return {"version": config.version, **config.settings.to_stored()}


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
        propose_settings(space=space, settings=proposed.settings, actor=actor)
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
