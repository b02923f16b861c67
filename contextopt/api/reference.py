"""Completes the OpenAPI description with the words and examples beside each app's endpoints.

A `glossary.toml` beside the endpoints describes fields and parameters by name. An `examples.json` beside them
holds a recorded request and response for each operation, which a test plays again. A value of the recording
becomes the example of its field; fields that it lacks take the value of a field with the same name, or the
glossary's.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REF = "#/components/schemas/"
# Longer values would hide the description that they illustrate.
TEXT_CHARS = 120
VALUE_CHARS = 200


@dataclass(frozen=True, slots=True)
class Reference:
    """Descriptions by schema and name, example values by name, and recorded requests by operation id."""

    fields: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    exceptions: dict[str, dict[str, str]] = field(default_factory=dict)
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)


def read_reference(folders: Iterable[Path]) -> Reference:
    """Read the glossaries and recorded requests in these folders; not every folder has them."""
    reference = Reference()
    for folder in folders:
        if (path := folder / "glossary.toml").exists():
            words = tomllib.loads(path.read_text())
            reference.fields.update(words.pop("fields", {}))
            reference.parameters.update(words.pop("parameters", {}))
            reference.values.update(words.pop("examples", {}))
            reference.exceptions.update(words)
        if (path := folder / "examples.json").exists():
            reference.requests.update(json.loads(path.read_text()))
    return reference


def complete(schema: dict[str, Any], reference: Reference) -> None:
    """Add the missing descriptions, and an example to each operation, parameter and field."""
    schemas = schema["components"]["schemas"]
    operations = [each for methods in schema["paths"].values() for each in methods.values()]
    for operation in operations:
        if request := reference.requests.get(operation["operationId"]):
            _illustrate(operation, request, schemas)
    seen = _values_by_name(schemas)
    for name, definition in schemas.items():
        words = reference.fields | reference.exceptions.get(name, {})
        for key, value in definition.get("properties", {}).items():
            _describe(value, words.get(key))
            for example in (reference.values.get(f"{name}.{key}"), reference.values.get(key), seen.get(key)):
                if example is not None and "examples" not in value and _fits(value, example):
                    value["examples"] = [example]
    for operation in operations:
        for parameter in operation.get("parameters", []):
            _complete_parameter(parameter, reference, seen)


def _describe(target: dict[str, Any], words: str | None) -> None:
    if words and not target.get("description"):
        target["description"] = words


def _complete_parameter(parameter: dict[str, Any], reference: Reference, seen: dict[str, Any]) -> None:
    name, own = parameter["name"], parameter["schema"].get("description")
    _describe(parameter, own or reference.parameters.get(name) or reference.fields.get(name))
    if "example" not in parameter:
        example = reference.values.get(name, seen.get(name))
        if example is not None:
            parameter["example"] = example


def _illustrate(operation: dict[str, Any], request: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Show the recorded request and response, and their values at the fields they come from."""
    given = request["path"] | request["query"]
    for parameter in operation.get("parameters", []):
        if parameter["name"] in given:
            parameter["example"] = given[parameter["name"]]
    if request["body"] is not None and "requestBody" in operation:
        _show(operation["requestBody"]["content"]["application/json"], request["body"], schemas)
    if request["response"] is not None:
        for content in operation["responses"][request["status"]].get("content", {}).values():
            _show(content, request["response"], schemas)


def _show(content: dict[str, Any], value: Any, schemas: dict[str, Any]) -> None:
    content["example"] = value
    for definition, name, part in _walk(content["schema"], value, schemas):
        shown = f"{part[: TEXT_CHARS - 1]}…" if isinstance(part, str) and len(part) > TEXT_CHARS else part
        if shown is not None and len(json.dumps(shown)) <= VALUE_CHARS:
            definition["properties"][name].setdefault("examples", [shown])


def _walk(
    schema: dict[str, Any], value: Any, schemas: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Yield each field of the value: the schema it is defined in, its name and its value."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].removeprefix(REF)]
    for option in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from _walk(option, value, schemas)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in value:
            yield from _walk(schema["items"], item, schemas)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name, part in value.items():
            if name in properties:
                yield schema, name, part
                yield from _walk(properties[name], part, schemas)


def _values_by_name(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return one recorded value for each name of a field."""
    seen: dict[str, Any] = {}
    for definition in schemas.values():
        for name, value in definition.get("properties", {}).items():
            for example in value.get("examples", ()):
                seen.setdefault(name, example)
    return seen


def _fits(schema: dict[str, Any], value: Any) -> bool:
    """Return whether a value has one of the types of the field; a reference has examples of its own."""
    kinds = {each.get("type") for each in (schema, *schema.get("anyOf", ()))}
    number = {"number", "integer"} if isinstance(value, int) else {"number"}
    of_type = {str: {"string"}, bool: {"boolean"}, dict: {"object"}, list: {"array"}}.get(type(value), number)
    return bool(kinds & of_type) or kinds == {None}
