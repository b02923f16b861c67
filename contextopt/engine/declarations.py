"""Declares a setting as the annotation of a dataclass's field: its range, its words, its stages."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal, InvalidOperation
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from contextopt.engine.validation import (
    WEIGHT_DECIMALS,
    InvalidValue,
    check_choice,
    check_int,
    check_text,
    check_weight,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

type JsonValue = str | int | None

ALL = "all"
"""The word for no limit."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting with its range, its words and its stages. Name, type and default are those of its field.

    `about` describes it in the API and the docs, and `help` in a form. `low` and `high` bound a number, and
    `high` the characters of a text. `blank` says what None means: the API's word for it is "all", or null if
    `is_null`. `choices` have their words. A number with choices has no others in a space, while a request
    may have any within the bounds. `stages` are those that the setting decides in, empty for all. A request
    overrides it by `request_name`: None stands for its own name, an empty text for no way to override it.
    """

    label: str
    about: str
    section: str
    help: str = ""
    low: int | Decimal = 0
    high: int | Decimal = 0
    blank: str = ALL
    is_null: bool = False
    choices: Mapping[Any, str] | None = None
    stages: tuple[int, ...] = ()
    request_name: str | None = None
    request_about: str = ""
    is_basic: bool = False
    example: str | int | None = None
    name: str = ""
    kind: type = int
    is_optional: bool = False
    default: Any = None

    @property
    def is_all(self) -> bool:
        """Whether the API's word for None is "all"."""
        return self.is_optional and not self.is_null

    def decides_in(self, stage: int) -> bool:
        return not self.stages or stage in self.stages

    def check(self, value: object) -> None:
        """Raise InvalidValue unless the setting can have the value."""
        if value is None and self.is_optional:
            return
        if self.kind is int:
            check_int(self.name, value, int(self.low), int(self.high))
        elif self.kind is Decimal:
            check_weight(self.name, value, low=self.low, high=self.high)
        elif self.choices:
            check_choice(self.name, value, tuple(self.choices))
        else:
            check_text(self.name, value)
            if not 1 <= len(str(value)) <= self.high:
                raise InvalidValue(self.name, f"must have 1 to {self.high} characters")

    def read(self, value: object) -> Any:
        """Return the value from JSON. A decimal is a text there, since a float would not be exact."""
        if self.kind is not Decimal:
            return value
        if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
            raise InvalidValue(self.name, "must be a number, or a number as text")
        try:
            return Decimal(str(value))
        except InvalidOperation:
            raise InvalidValue(self.name, "must be a number, or a number as text") from None

    def write(self, value: Any) -> JsonValue:
        """Return the value as JSON, a decimal with all its digits."""
        if self.kind is not Decimal:
            return value  # type: ignore[no-any-return]
        # Adding zero leaves no minus sign at a zero.
        return f"{value + 0:.{WEIGHT_DECIMALS}f}"


def read_settings(declaring: "type[DataclassInstance]") -> dict[str, Setting]:
    """Return the settings that a dataclass declares, each with the name, type and default of its field."""
    hints = get_type_hints(declaring, include_extras=True)
    found = {}
    for field in fields(declaring):
        kind, *declared = get_args(hints[field.name]) or (hints[field.name],)
        options = get_args(kind) or (kind,)
        for setting in declared:
            found[field.name] = replace(
                setting,
                name=field.name,
                kind=next((each for each in (int, Decimal) if each in options), str),
                is_optional=NoneType in options,
                default=field.default,
                request_name=field.name if setting.request_name is None else setting.request_name,
            )
    return found
