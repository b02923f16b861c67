"""A setting of a space is declared once: whatever names settings reads them from the table."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args

import pytest
from django.core.exceptions import ValidationError
from django.core.management import load_command_class

from config.settings import BASE_DIR
from contextopt.admin.configs import ContextConfigAdmin, PublishForm
from contextopt.api.configs import ConfigOut, config_json
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.engine.settings import REQUESTED, SETTINGS, STAGES, Section, setting_of_request
from contextopt.engine.settings import ContextConfig as Settings
from contextopt.engine.validation import InvalidValue, Setting, read_settings
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.forms import setting_field
from contextopt.spaces.inputs import ConfigIn, SettingsIn, type_of
from contextopt.spaces.models import Space
from dashboard.kit.formats import setting_label
from dashboard.pages.assemblies.whatif import WhatIfForm
from dashboard.pages.spaces.forms import ConfigForm

each_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=list(SETTINGS))


@each_setting
def test_it_is_complete(setting: Setting) -> None:
    assert setting.label == setting_label(setting.name)
    assert setting.about.endswith(".")
    assert setting.section in set(Section)
    assert set(setting.stages) <= set(STAGES)
    setting.check(setting.default)
    assert setting.read(setting.write(setting.default)) == setting.default


@each_setting
def test_the_api_takes_and_shows_it(setting: Setting) -> None:
    for model in (SettingsIn, ConfigIn, ConfigOut):
        assert model.model_fields[setting.name].description == setting.about
    if setting.request_name:
        assert AssemblyIn.model_fields[setting.request_name].description


@each_setting
def test_both_forms_have_it(setting: Setting) -> None:
    form = ConfigForm()
    assert form.fields[setting.name].label == setting.label
    assert setting.name in [field.name for fields in form.sections.values() for field in fields]
    for stage in STAGES:
        tried = WhatIfForm({}, config=Settings(stage=stage), is_asked=True)
        assert (setting.name in tried.fields) == setting.decides_in(stage)


@each_setting
def test_the_admin_has_it(setting: Setting) -> None:
    assert issubclass(ContextConfigAdmin.form, PublishForm)
    assert setting.name in ContextConfigAdmin.form.base_fields


@pytest.mark.parametrize("name", REQUESTED)
def test_the_command_takes_it(name: str) -> None:
    parser = load_command_class("contextopt", "assemble").create_parser("manage.py", "assemble")
    assert f"--{name.replace('_', '-')}" in parser._option_string_actions


@each_setting
def test_the_docs_describe_it(setting: Setting) -> None:
    text = (BASE_DIR / "docs/contexts.md").read_text()
    assert f"| `{setting.name}` | {setting.label} |" in text


@pytest.mark.parametrize("name", REQUESTED)
def test_settings_of_one_name_in_a_request_have_one_range(name: str) -> None:
    alike = [each for each in SETTINGS.values() if each.request_name == name]
    assert len({(each.kind, each.low, each.high, each.is_all) for each in alike}) == 1
    for each in alike:
        assert all(setting_of_request(name, stage) is each for stage in each.stages)


def test_a_name_that_means_nothing_in_a_stage() -> None:
    assert setting_of_request("window_days", 2) is SETTINGS["window_days"]
    assert setting_of_request("semantic_weight", 4) is SETTINGS["semantic_weight"]
    assert setting_of_request("notes_chars", 4) is None


def test_an_absent_setting_has_its_default(space: Space) -> None:
    ContextConfig.objects.create(space=space, version=2, settings={"max_records": 7})
    stored = ContextConfig.objects.get(space=space, version=2)
    assert stored.settings == Settings(max_records=7)
    assert config_json(stored)["recency_weight"] == "0.700"


@dataclass(frozen=True)
class Toys:
    """Settings of each kind."""

    plain: int = 1
    size: Annotated[int, Setting(label="Size", about="", section="", low=1, high=9)] = 3
    limit: Annotated[int | None, Setting(label="Limit", about="", section="", high=9)] = None
    share: Annotated[Decimal, Setting(label="Share", about="", section="", high=1)] = Decimal("0.5")
    mode: Annotated[
        Literal["a", "b"], Setting(label="", about="", section="", choices={"a": "A", "b": "B"})
    ] = "a"


def test_a_declaration_is_read_with_its_field() -> None:
    toys = read_settings(Toys)
    assert [(each.name, each.kind, each.is_all, each.default) for each in toys.values()] == [
        ("size", int, False, 3),
        ("limit", int, True, None),
        ("share", Decimal, False, Decimal("0.5")),
        ("mode", str, False, "a"),
    ]
    assert get_args(type_of(toys["mode"])) == ("a", "b")
    fields = {name: setting_field(each) for name, each in toys.items()}
    assert (fields["size"].required, fields["limit"].required) == (True, False)
    assert fields["limit"].help_text == "Leave blank for all."


@pytest.mark.parametrize(
    ("name", "value"),
    [("size", 10), ("size", None), ("limit", -1), ("share", Decimal(2)), ("share", "much"), ("mode", "c")],
)
def test_a_value_outside_its_range_is_refused_by_form_and_check(name: str, value: Any) -> None:
    setting = read_settings(Toys)[name]
    with pytest.raises(InvalidValue, match=name):
        setting.check(value)
    with pytest.raises(ValidationError):
        setting_field(setting).clean(value)
