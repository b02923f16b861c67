"""The settings under which a logged request is computed again."""

from dataclasses import replace

from pydantic import ValidationError

from contextopt.assemblies.assemble import resolve_config
from contextopt.assemblies.candidates import load_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.replay.inputs import ReplayIn
from contextopt.assemblies.replay.material import Material
from contextopt.engine import ContextConfig
from contextopt.errors import Conflict
from contextopt.spaces.configs import SETTINGS, find_config, given_settings
from contextopt.spaces.models import Space

# Settings that change the ranking of records.
RANKING = (
    "recency_weight", "frequency_weight", "semantic_weight", "lexical_weight", "neighbour_share",
    "date_weight", "who_weight", "question_record_tokens",
)  # fmt: skip
# Settings that change how much the neighbours of a match count.
NEIGHBOURS = ("semantic_weight", "lexical_weight", "neighbour_share", "question_record_tokens")


def settings_for(material: Material, data: ReplayIn) -> ContextConfig:
    """Return the engine's config: as logged or of another version, with the changed settings.

    Raises:
        NotFound: the space has no such version.
        Conflict: the request can no longer be made under another version.
        InvalidInput, InvalidValue: a setting is outside its range; the error names it.
    """
    config = material.config if data.config is None else _config_of(material, data.config)
    return config.replace(**given_settings(data.settings))


def _config_of(material: Material, version: int) -> ContextConfig:
    """Return the settings of a version with the request's overrides."""
    space = Space.objects.get(pk=material.space_id)
    stored = find_config(space, version)
    try:
        request = AssemblyIn.model_validate({**material.request, "space": space.slug})
    except ValidationError as error:
        raise Conflict("An older version logged the request, and this one does not accept it.") from error
    settings = {name: getattr(stored, name) for name in SETTINGS}
    under_version = replace(load_space(space.team_id, space.slug), settings=settings)
    return resolve_config(under_version, request)[0]


def differ(one: ContextConfig, other: ContextConfig, names: tuple[str, ...]) -> bool:
    """Return whether one of the named settings differs."""
    return any(getattr(one, name) != getattr(other, name) for name in names)
