"""Completes the OpenAPI description with the words and examples beside each app's endpoints.

A `glossary.toml` beside the endpoints describes fields and parameters by name. An `examples.json` beside them
holds a recorded request and response for each operation, which a test plays again. A value of the recording
becomes the example of its field. A field that it lacks takes the glossary's value, or else the recorded value
of a field with the same name and type.
"""

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from contextopt.api.protocol.problems import CONTENT_TYPE, TYPE_PREFIX
from contextopt.engine.text.cleaning import cut

REF = "#/components/schemas/"
# Longer texts would hide the description that they illustrate.
TEXT_CHARS = 120
EMPTY: tuple[object, ...] = ("", [], {})
TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


@dataclass(frozen=True, slots=True)
class Reference:
    """Descriptions by schema and name, example values by name, and recorded requests by operation id."""

    fields: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    exceptions: dict[str, dict[str, str]] = field(default_factory=dict)
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)


class Recorded(NamedTuple):
    """The example of a field in a recorded request or response, and the schema it belongs to."""

    schema: str
    definition: dict[str, Any]
    value: Any


def read_reference(folders: Iterable[Path]) -> Reference:
    """Read the glossaries and recorded requests in these folders; not every folder has them."""
    reference = Reference()
    for folder in folders:
        if (path := folder / "glossary.toml").exists():
            words = tomllib.loads(path.read_text(encoding="utf-8"))
            reference.fields.update(words.pop("fields", {}))
            reference.parameters.update(words.pop("parameters", {}))
            reference.values.update(words.pop("examples", {}))
            reference.exceptions.update(words)
        if (path := folder / "examples.json").exists():
            reference.requests.update(json.loads(path.read_text(encoding="utf-8")))
    return reference


def complete(schema: dict[str, Any], reference: Reference) -> None:
    """Add the missing descriptions, and an example to each operation, parameter and field."""
    schemas = schema["components"]["schemas"]
    operations = [each for methods in schema["paths"].values() for each in methods.values()]
    for operation in operations:
        if request := reference.requests.get(operation["operationId"]):
            _illustrate(operation, request, schemas)
    recorded = _recorded_by_name(schemas)
    for name, definition in schemas.items():
        words = reference.fields | reference.exceptions.get(name, {})
        for key, value in definition.get("properties", {}).items():
            _describe(value, words.get(key))
            if _is_bare(value):
                example = _find_example(name, key, value, reference, recorded)
                if example is not None:
                    value["examples"] = [example]
    for operation in operations:
        for parameter in operation.get("parameters", []):
            _complete_parameter(parameter, reference, recorded)


def _describe(target: dict[str, Any], words: str | None) -> None:
    if words and not target.get("description"):
        target["description"] = words


def _complete_parameter(
    parameter: dict[str, Any], reference: Reference, recorded: Mapping[str, list[Recorded]]
) -> None:
    name, schema = parameter["name"], parameter["schema"]
    own = schema.get("description")
    _describe(parameter, own or reference.parameters.get(name) or reference.fields.get(name))
    if "example" not in parameter and "examples" not in schema:
        example = _find_example("", name, schema, reference, recorded)
        if example is not None:
            _exemplify(parameter, example)


def _exemplify(parameter: dict[str, Any], value: Any) -> None:
    """Set a parameter's example. That of an optional one is in the schema, or Swagger UI would send it."""
    if parameter["required"]:
        parameter["example"] = value
    else:
        parameter["schema"]["examples"] = [value]


def _illustrate(operation: dict[str, Any], request: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Show the recorded request and response, and their values at the fields they come from."""
    given = request["path"] | request["query"]
    for parameter in operation.get("parameters", []):
        if parameter["name"] in given:
            _exemplify(parameter, given[parameter["name"]])
    if request["body"] is not None and "requestBody" in operation:
        _show(operation["requestBody"]["content"]["application/json"], request["body"], schemas)
    if request["response"] is not None:
        for content in operation["responses"][request["status"]].get("content", {}).values():
            _show(content, request["response"], schemas)


def _show(content: dict[str, Any], value: Any, schemas: dict[str, Any]) -> None:
    content["example"] = value
    for definition, name, part in _walk(content["schema"], value, schemas):
        target = definition["properties"][name]
        if part is not None and _is_bare(target):
            target["examples"] = [_shorten(part)]


def _is_bare(target: dict[str, Any]) -> bool:
    """Return whether a field has no example, or only an empty text, list or object."""
    return target.get("examples", [""])[0] in EMPTY


def _shorten(value: Any) -> Any:
    if isinstance(value, str):
        return cut(value, TEXT_CHARS)
    if isinstance(value, list):
        return [_shorten(part) for part in value[:1]]
    if isinstance(value, dict):
        return {key: _shorten(part) for key, part in value.items()}
    return value


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


def _recorded_by_name(schemas: dict[str, Any]) -> Mapping[str, list[Recorded]]:
    """Return the recorded values of all fields by the field's name."""
    found: defaultdict[str, list[Recorded]] = defaultdict(list)
    for schema, definition in schemas.items():
        for name, value in definition.get("properties", {}).items():
            if not _is_bare(value):
                found[name].append(Recorded(schema, value, value["examples"][0]))
    return found


def _find_example(
    schema: str,
    name: str,
    target: dict[str, Any],
    reference: Reference,
    recorded: Mapping[str, list[Recorded]],
) -> Any:
    """Return a value for a field without one. An empty recorded value is only replaced by the glossary's.

    Among fields with the same name, those of schemas about the same thing are best: `TaskQuery` takes a value
    of `TaskOut` before one of `RecordOut`.
    """
    values = reference.values
    if (exact := f"{schema}.{name}") in values:
        return values[exact]
    if name in values and _fits(target, values[name]):
        return values[name]
    if "examples" in target:
        return target["examples"][0]
    alike = [each for each in recorded.get(name, ()) if _is_alike(target, each)]
    best = max(alike, key=lambda each: _first_word(each.schema) == _first_word(schema), default=None)
    return best and best.value


def _first_word(schema: str) -> str:
    return re.split("(?<=[a-z])(?=[A-Z])", schema)[0]


def _is_alike(target: dict[str, Any], other: Recorded) -> bool:
    """Return whether another field's value is one for this field too. References must be the same."""
    return _references(target) == _references(other.definition) and _fits(target, other.value)


def _references(definition: dict[str, Any]) -> list[str]:
    options = (definition, definition.get("items", {}), *definition.get("anyOf", ()))
    return [option["$ref"] for option in options if "$ref" in option]


def _fits(target: dict[str, Any], value: Any) -> bool:
    return any(_accepts(option, value) for option in target.get("anyOf", [target]))


def _accepts(option: dict[str, Any], value: Any) -> bool:
    """Return whether a value has the option's type, and is one of its constants if it has them."""
    if "$ref" in option:
        return isinstance(value, dict)
    if "const" in option or "enum" in option:
        return value in option.get("enum", [option.get("const")])
    kind = option.get("type")
    return kind in {None, TYPES[type(value)]} or (kind == "number" and type(value) is int)


BODY_REFUSALS = frozenset({411, 413, 415})


class Refusal(NamedTuple):
    """One error status: when it is given, and the values of its example."""

    description: str
    kind: str
    title: str
    detail: str
    instance: str
    field: str = ""


REFUSALS = {
    400: Refusal(
        "The request or its body is malformed.",
        "malformed-body", "Malformed body",
        "The body is not JSON: EOF while parsing a value at line 1 column 9.",
        "/api/v1/spaces", "body",
    ),
    401: Refusal(
        "The API key is missing or invalid.",
        "unauthenticated", "Unauthenticated",
        "Send a valid API key, as `Authorization: Bearer KEY` or as `X-API-Key: KEY`.", "/api/v1/me",
    ),
    403: Refusal(
        "The key's scope does not allow this, or the key is limited to spaces.",
        "forbidden", "Forbidden", "This requires a key with scope write. Yours has scope read.",
        "/api/v1/spaces",
    ),
    404: Refusal(
        "The item does not exist, belongs to another team, or is in a space that the key does not reach.",
        "not-found", "Not found", "There is no space 'sales'.", "/api/v1/spaces/sales",
    ),
    409: Refusal(
        "The item's state does not allow this, or a request with the same Idempotency-Key is in progress.",
        "conflict", "Conflict", "A space with the slug 'support' already exists.", "/api/v1/spaces",
    ),
    411: Refusal(
        "The request has no Content-Length. Chunked bodies are not supported.",
        "length-required", "Length required", "Send a Content-Length. Chunked bodies are not supported.",
        "/api/v1/spaces",
    ),
    413: Refusal(
        "The body is too large, either as sent or after unpacking.",
        "body-too-large", "Body too large", "The body is larger than 32 MiB.", "/api/v1/spaces",
    ),
    415: Refusal(
        "The body's content type or encoding is not supported.",
        "unsupported-media-type", "Unsupported media type", "Send application/json, not text/plain.",
        "/api/v1/spaces",
    ),
    422: Refusal(
        "Some fields are invalid. The response names each of them.",
        "invalid-input", "Invalid input", "slug: must have at least 1 character", "/api/v1/spaces", "slug",
    ),
    429: Refusal(
        "Too many invalid keys from this address, or too many requests with this key. Try again after "
        "Retry-After seconds.",
        "too-many-attempts", "Too many attempts", "Too many failed attempts. Try again in 60 seconds.",
        "/api/v1/me",
    ),
    503: Refusal(
        "A service this request needs is unavailable, or too many of your team's requests are waiting (type "
        "`busy`). Try again after Retry-After seconds.",
        "unavailable", "Service unavailable",
        "A service that this request needs is unavailable. Nothing was written.", "/api/v1/spaces",
    ),
}  # fmt: skip


def refusals_json() -> dict[str, Any]:
    """Return the responses as shared components of the API's description."""
    return {f"Refusal{status}": _response(status, refusal) for status, refusal in REFUSALS.items()}


def refusals_of(operation: dict[str, Any]) -> dict[int, Any]:
    """Return references to the responses that an operation may give."""
    has_body = "requestBody" in operation
    return {
        status: {"$ref": f"#/components/responses/Refusal{status}"}
        for status in REFUSALS
        if has_body or status not in BODY_REFUSALS
    }


def problem_json(status: int) -> dict[str, Any]:
    """Return the example of an error response."""
    _, kind, title, detail, instance, field = REFUSALS[status]
    shown = {"type": TYPE_PREFIX + kind, "title": title, "status": status, "detail": detail}
    errors = [{"field": field, "message": detail.removeprefix(f"{field}: ")}] if field else []
    return shown | {"instance": instance} | ({"errors": errors} if errors else {})


def _response(status: int, refusal: Refusal) -> dict[str, Any]:
    content = {"schema": {"$ref": "#/components/schemas/Problem"}, "example": problem_json(status)}
    return {"description": refusal.description, "content": {CONTENT_TYPE: content}}
