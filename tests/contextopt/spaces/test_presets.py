"""Presets are values of settings that exist, within their range."""

import pytest

from contextopt.engine.settings import SETTINGS, ContextConfig
from contextopt.errors import InvalidInput
from contextopt.spaces.configs import change_settings, publish_config
from contextopt.spaces.inputs import ConfigIn
from contextopt.spaces.models import Space
from contextopt.spaces.presets import LEAN, PRESETS, Preset


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_a_preset_changes_settings_that_exist(preset: Preset) -> None:
    defaults = ContextConfig()
    changed = change_settings(defaults, preset.settings)
    assert preset.settings.keys() <= SETTINGS.keys()
    assert preset.is_in(changed)
    assert not preset.is_in(defaults)


@pytest.mark.django_db
def test_fields_given_beside_a_preset_override_it(space: Space) -> None:
    data = ConfigIn(preset=LEAN.name, max_records=6, draft=True)
    draft = publish_config(space=space, data=data, created_by="test")
    assert (draft.settings.record_budget, draft.settings.max_records) == ("adaptive", 6)
    assert draft.is_draft
    published = publish_config(space=space, data=ConfigIn(preset=LEAN.name), created_by="test")
    assert LEAN.is_in(published.settings)
    assert published.is_active


@pytest.mark.django_db
def test_a_preset_is_checked_like_its_values(space: Space) -> None:
    with pytest.raises(InvalidInput, match="total_tokens"):
        publish_config(space=space, data=ConfigIn(preset=LEAN.name, total_tokens=2_800), created_by="test")
