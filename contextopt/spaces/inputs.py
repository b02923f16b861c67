"""Input types for spaces, records and settings."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, create_model

from contextopt.engine.settings import SETTINGS
from contextopt.engine.validation import ALL, WEIGHT_DECIMALS, Setting
from contextopt.inputs import (
    NUMBER,
    BigInt,
    Input,
    Metadata,
    Moment,
    Name,
    Slug,
    Text,
    refuse_blank,
    refuse_breaks,
)
from contextopt.limits import DATE_MIN
from contextopt.spaces import models as limits
from contextopt.spaces.presets import PRESETS

Tag = Annotated[Text, Field(min_length=1, max_length=limits.TAG_MAX)]
Category = Annotated[Text, Field(min_length=1, max_length=limits.CATEGORY_MAX), AfterValidator(refuse_breaks)]
Categories = Annotated[list[Category], Field(max_length=limits.CATEGORIES_MAX)]
Description = Annotated[Text, Field(max_length=limits.DESCRIPTION_MAX)]
Title = Annotated[Text, Field(max_length=limits.TITLE_MAX), AfterValidator(refuse_blank)]
Type = Annotated[Text, Field(max_length=limits.TYPE_MAX), AfterValidator(refuse_blank)]
Tags = Annotated[list[Tag], Field(max_length=limits.TAGS_MAX)]
Notes = Annotated[Text, Field(max_length=limits.NOTES_MAX)]
Thread = Annotated[Text, Field(max_length=limits.THREAD_MAX)]
Language = Literal["en", "no"]


class SpaceIn(Input):
    slug: Slug
    name: Name | None = None
    description: Description = ""
    categories: Categories = Field(default_factory=list)


class SpacePatch(Input):
    name: Name = ""
    description: Description = ""
    categories: Categories = Field(default_factory=list)


class RecordIn(Input):
    """A record. Views and deletion are set when it is created; a later import of the same record does not
    change them, nor the pin if the row omits `pinned`. The language is detected from the texts unless given.
    """

    title: Title
    type: Type = "note"
    date: Moment | None = None
    tags: Tags = Field(default_factory=list)
    notes: Notes = ""
    pinned: bool = False
    thread: Thread = ""
    position: BigInt | None = None
    source: Annotated[Text, Field(max_length=limits.SOURCE_MAX)] = ""
    external_id: Annotated[Text, Field(max_length=limits.EXTERNAL_ID_MAX)] = ""
    metadata: Metadata = Field(default_factory=dict)
    language: Language | None = None
    view_count: Annotated[int, Field(ge=0, le=limits.VIEWS_MAX), NUMBER] = 0
    last_viewed_at: Moment | None = None
    deleted_at: Moment | None = None


class RecordPatch(Input):
    """Changes to a record. Fields you omit stay unchanged. Only `position` may be null."""

    title: Title = ""
    type: Type = ""
    date: Moment = DATE_MIN
    tags: Tags = Field(default_factory=list)
    notes: Notes = ""
    pinned: bool = False
    thread: Thread = ""
    position: BigInt | None = None
    metadata: Metadata = Field(default_factory=dict)
    language: Language = "en"


def type_of(setting: Setting, *, is_request: bool = False) -> Any:
    """Return the type of a setting in the settings of a space, or where a request overrides it."""
    if setting.choices and (setting.kind is str or not is_request):
        return _one_of([ALL if each is None else each for each in setting.choices])
    if setting.kind is str:
        return Annotated[Text, Field(max_length=int(setting.high))]
    if setting.kind is Decimal:
        return Annotated[Decimal, Field(ge=setting.low, le=setting.high, decimal_places=WEIGHT_DECIMALS)]
    number = Annotated[int, Field(ge=setting.low, le=setting.high), NUMBER]
    return number | Literal["all"] if setting.is_all else number


def output_type_of(setting: Setting) -> Any:
    """Return the type of a setting in a response. Weights and shares are texts, since they are exact."""
    if setting.choices and setting.kind is str:
        return _one_of(list(setting.choices))
    if setting.kind is str:
        return str | None if setting.is_optional else str
    if not setting.is_optional:
        return int if setting.kind is int else str
    return int | Literal["all"] if setting.is_all else int | None


def _one_of(values: list[Any]) -> Any:
    return Literal.__getitem__(tuple(values))


def with_fields[Given: BaseModel](fields: Mapping[str, Any]) -> Callable[[type[Given]], type[Given]]:
    """Return a decorator that adds fields to an input or output type."""

    def add(model: type[Given]) -> type[Given]:
        return create_model(
            model.__name__, __base__=model, __doc__=model.__doc__, __module__=model.__module__, **fields
        )

    return add


def described(about: str, example: object = None) -> Any:
    """Return an optional field with its description."""
    return Field(default=None, description=about, examples=None if example is None else [example])


@with_fields(
    {
        name: (type_of(setting) | None, described(setting.about, setting.example))
        for name, setting in SETTINGS.items()
    }
)
class SettingsIn(Input):
    """Settings of a space. Fields you omit keep their value."""

    if TYPE_CHECKING:

        def __init__(self, **values: Any) -> None: ...


@with_fields(
    {
        "preset": (
            _one_of(list(PRESETS)) | None,
            described("Preset whose values are set. Fields you give as well override it.", "lean"),
        )
    }
)
class ConfigIn(SettingsIn):
    """Settings of the next config. Fields you omit are copied from the active config."""

    note: Annotated[Text, Field(max_length=200)] = ""
    draft: bool = False

    if TYPE_CHECKING:
        preset: str | None

        def __init__(self, **values: Any) -> None: ...
