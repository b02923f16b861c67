"""The way in for a space's settings: versions are published and activated, never edited."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from contextopt.auditing import SYSTEM, note_event
from contextopt.errors import FieldProblem, InvalidInput, NotFound
from contextopt.inputs import ConfigIn
from contextopt.locking import hold_space
from contextopt.models import ContextConfig, Space
from contextopt.models.configs import SETTINGS

# The setting that may be null: none means the sum of the parts.
NULLABLE = frozenset({"total_tokens"})


def publish_config(*, space: Space, data: ConfigIn, created_by: str) -> ContextConfig:
    """Add the next version and make it the active one; what is not given is carried over.

    Raises:
        InvalidInput: a setting is none that an assembly could work with; the error names it.
    """
    given = data.model_dump(exclude_unset=True, exclude={"note"})
    for name, value in given.items():
        if value is None and name not in NULLABLE:
            raise InvalidInput.of(name, "must not be null; leave it out to carry it over")
        if value == "all":
            given[name] = None
    try:
        return publish_settings(space=space, created_by=created_by, note=data.note, **given)
    except ValidationError as error:
        problems = [FieldProblem(name, " ".join(rules)) for name, rules in error.message_dict.items()]
        raise InvalidInput(problems) from error


@transaction.atomic
def publish_settings(*, space: Space, created_by: str, note: str = "", **settings: object) -> ContextConfig:
    """Publish the next version and write down what differs from the one before.

    Raises:
        ValidationError: a setting is none that an assembly could work with.
    """
    before = space.configs.active().first()
    config = ContextConfig.objects.publish(space=space, created_by=created_by, note=note, **settings)
    _note(space, created_by, "config.published", before, config)
    return config


def _note(space: Space, actor: str, action: str, before: ContextConfig | None, after: ContextConfig) -> None:
    note_event(
        team_id=space.team_id,
        actor=actor,
        action=action,
        subject=f"{space.slug} v{after.version}",
        before=_settings_of(before) if before else None,
        after=_settings_of(after),
    )


def _settings_of(config: ContextConfig) -> dict[str, Any]:
    return {"version": config.version, **{name: getattr(config, name) for name in SETTINGS}}


def find_config(space: Space, version: int) -> ContextConfig:
    """Return one version of the space's settings.

    Raises:
        NotFound: the space has no such version.
    """
    config = space.configs.filter(version=version).first()
    if config is None:
        raise NotFound(f"There is no version {version} of the settings of {space.slug!r}.")
    return config


@transaction.atomic
def activate_config(*, space: Space, version: int, actor: str = SYSTEM) -> ContextConfig:
    """Make an earlier version the active one again. The version itself does not change.

    Raises:
        NotFound: the space has no such version.
    """
    hold_space(space.pk)
    Space.objects.select_for_update(no_key=True).get(pk=space.pk)
    config = find_config(space, version)
    before = space.configs.active().exclude(pk=config.pk).first()
    space.configs.active().exclude(pk=config.pk).update(is_active=False)
    space.configs.filter(pk=config.pk).update(is_active=True)
    config.is_active = True
    if before and before.encoding != config.encoding:
        Space.objects.filter(pk=space.pk).update(recount_from=0)
    if before:
        _note(space, actor, "config.activated", before, config)
    return config
