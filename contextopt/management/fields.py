"""Options of commands that are read from the fields of an input type."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import CommandParser
from pydantic import BaseModel, ValidationError

from contextopt.errors import FieldProblem, InvalidInput
from contextopt.inputs import INT_MAX, field_problems

# A text that may be this long is called TEXT, a shorter one NAME.
TEXT_FROM = 1_000


def option_name(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def add_fields(parser: CommandParser, model: type[BaseModel], about: Mapping[str, str], **names: str) -> None:
    """Add an option for each of these fields of an input type. Values, range and default come from the type.

    `about` has the help, and `names` the options that have another name than their field, with a name for
    their value if it should be another: `config_version="--config VERSION"`.
    """
    described = model.model_json_schema()
    for field, text in about.items():
        schema = described["properties"][field]
        option, _, value = names.get(field, option_name(field)).partition(" ")
        if schema.get("type") == "boolean":
            parser.add_argument(option, dest=field, action="store_true", help=text)
            continue
        kinds = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
        is_list = kinds[0].get("type") == "array"
        parser.add_argument(
            option,
            dest=field,
            metavar=value or _name_value([kinds[0]["items"]] if is_list else kinds, described),
            action="append" if is_list else "store",
            help=_complete(text, kinds[0], schema.get("default")),
        )


def _name_value(kinds: Sequence[Mapping[str, Any]], described: Mapping[str, Any]) -> str:
    """Return what stands for a value in the usage: `N`, `SHARE`, `MOMENT`, `N|all` or `rrf|weighted`."""
    names: list[str] = []
    for kind in kinds:
        if reference := kind.get("$ref"):
            names.append(_name_value([described["$defs"][reference.rsplit("/", 1)[1]]], described))
        elif "const" in kind or "enum" in kind:
            names += map(str, kind.get("enum") or [kind["const"]])
        elif kind["type"] == "integer":
            names.append("N")
        elif kind["type"] == "number":
            names.append("SHARE" if kind.get("maximum") == 1 else "NUMBER")
        elif kind.get("format"):
            names.append("MOMENT")
        elif not any(each.get("type") == "number" for each in kinds):
            names.append("TEXT" if kind.get("maxLength", TEXT_FROM) >= TEXT_FROM else "NAME")
    return "|".join(names)


def _complete(text: str, kind: Mapping[str, Any], default: object) -> str:
    """Add the range and the default to the help of an option, if the text does not name a default itself."""
    bounds = [f"{kind[name]:,}".removesuffix(".0") for name in ("minimum", "maximum") if name in kind]
    limits = f", {' to '.join(bounds)}" if len(bounds) == 2 and kind["maximum"] < INT_MAX else ""
    # Some texts describe the range themselves.
    limits = "" if limits.removeprefix(", ") in text else limits
    repeatable = "; repeatable" if kind.get("type") == "array" else ""
    about, _, usual = text.partition(" (")
    if default:
        usual = f"default: {default:,})" if isinstance(default, int) else f"default: {default})"
    return f"{about}{limits}{repeatable}" + (f" ({usual}" if usual else "")


def given_fields(model: type[BaseModel], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an input type that the options give."""
    return {name: options[name] for name in model.model_fields if options.get(name) is not None}


def read_fields[Model: BaseModel](model: type[Model], options: Mapping[str, Any]) -> Model:
    """Validate the fields that the options give. Raises: InvalidInput."""
    return parse_input(model, given_fields(model, options))


def parse_input[Model: BaseModel](
    model: type[Model], values: Mapping[str, object], names: Mapping[str, str] | None = None
) -> Model:
    """Validate values under the names of their fields, or the other names that the caller knows them by.

    Raises:
        InvalidInput: some values were refused.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        problems = [
            FieldProblem((names or {}).get(one.field.split(".")[0], one.field), one.message)
            for one in field_problems(error)
        ]
        raise InvalidInput(problems) from error
