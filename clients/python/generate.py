"""Writes the client's models.py and operations.py: `python clients/python/generate.py`, or `make docs`.

The description is tests/contextopt/api/openapi.json. A test compares the files with what this script renders.
"""

import json
import keyword
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DESCRIPTION = HERE.parents[1] / "tests/contextopt/api/openapi.json"
PACKAGE = HERE / "src/contextopt_client"
WIDTH = 104
NOTE = '"""{what} Written by generate.py from the API\'s description."""'

# Method of the client → method and path of the API.
OPERATIONS = {
    "read_key": "get /api/v1/me",
    "assemble": "post /api/v1/assemblies",
    "preview": "post /api/v1/assemblies/preview",
    "read_assembly": "get /api/v1/assemblies/{assembly_id}",
    "search": "post /api/v1/search",
    "remember": "post /api/v1/memories",
    "give_feedback": "post /api/v1/feedback",
    "create_space": "post /api/v1/spaces",
    "create_record": "post /api/v1/spaces/{slug}/records",
    "write_records": "post /api/v1/spaces/{slug}/records/bulk",
    "filter_phase": "post /api/v1/phases/{phase}/filter",
    "plan_retry": "post /api/v1/retry-delta",
    "ask_hint": "post /api/v1/strategy-hints",
    "build_step": "post /api/v1/agent-context",
    "add_finding": "post /api/v1/tasks/{task_id}/findings",
    "resolve_finding": "post /api/v1/tasks/{task_id}/findings/{finding_id}/resolutions",
    "compress_phase": "post /api/v1/tasks/{task_id}/compress",
    "advance_phase": "post /api/v1/tasks/{task_id}/advance",
    "read_task_status": "get /api/v1/tasks/{task_id}/status",
    "complete_task": "post /api/v1/completions",
}
# These change nothing, so they need no Idempotency-Key.
READS = frozenset({"read_key", "preview", "read_assembly", "search", "read_task_status"})
SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


@dataclass(frozen=True)
class Operation:
    """A method of the client, and the endpoint that it calls."""

    name: str
    method: str
    path: str
    about: str
    parameters: tuple[tuple[str, str], ...]
    required: tuple[tuple[str, str], ...]
    options: str
    answer: str

    @property
    def is_write(self) -> bool:
        return self.name not in READS

    @property
    def types(self) -> str:
        return " ".join([self.options, self.answer, *(kind for _, kind in self.required)])


class Generator:
    """Renders the types that the operations need, and the operations."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        self.description = description
        self.schemas: Mapping[str, Any] = description["components"]["schemas"]
        self.wanted: dict[str, str] = {}
        self.operations = [self._operation(name, endpoint) for name, endpoint in OPERATIONS.items()]

    def models(self) -> str:
        body = "\n\n\n".join(self.wanted[name] for name in sorted(self.wanted))
        head = "from typing import Any, Literal, NotRequired, TypedDict"
        note = NOTE.format(what="Types of requests and responses.")
        return f"{note}\n\nfrom __future__ import annotations\n\n{head}\n\n\n{body}\n"

    def operations_module(self) -> str:
        kinds = (("Operations", False), ("AsyncOperations", True))
        words = {word for each in self.operations for word in re.findall(r"\w+", each.types)}
        names = sorted(words & self.wanted.keys(), key=str.casefold)
        imports = "from contextopt_client.models import (\n" + "".join(f"    {n},\n" for n in names) + ")"
        classes = "\n\n\n".join(self._class(name, is_async=is_async) for name, is_async in kinds)
        head = (
            "from abc import ABC, abstractmethod\nfrom typing import Any, Literal, Unpack\n"
            "from urllib.parse import quote\n"
        )
        note = NOTE.format(what="The operations, for both clients.")
        return f"{note}\n\n{head}\nfrom contextopt_client.calls import Call\n{imports}\n\n\n{classes}\n"

    def _operation(self, name: str, endpoint: str) -> Operation:
        method, path = endpoint.split()
        found = self.description["paths"][path][method]
        parameters = tuple(
            (each["name"], self._type(each["schema"]))
            for each in found.get("parameters", ())
            if each["in"] == "path"
        )
        body = found.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        required, options = self._body(body) if body else ((), "")
        answer = next(
            value["content"]["application/json"]["schema"]
            for code, value in found["responses"].items()
            if code.startswith("2")
        )
        about = found.get("description", "").split("\n\n")[0] or f"{found['summary']}."
        return Operation(name, method.upper(), path, about, parameters, required, options, self._type(answer))

    def _body(self, reference: Mapping[str, Any]) -> tuple[tuple[tuple[str, str], ...], str]:
        """Return the required members, and the name of the type that holds the others."""
        name = reference["$ref"].rsplit("/", 1)[1]
        schema = self.schemas[name]
        needed = schema.get("required", [])
        members = {each: self._type(value) for each, value in schema["properties"].items()}
        options = f"{name.removesuffix('In')}Options"
        rest = {each: kind for each, kind in members.items() if each not in needed}
        if rest:
            self.wanted[options] = self._typed_dict(options, schema, rest, total=False)
        return tuple((each, members[each]) for each in needed), options if rest else ""

    def _type(self, schema: Mapping[str, Any]) -> str:
        if "$ref" in schema:
            return self._named(schema["$ref"].rsplit("/", 1)[1])
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return " | ".join(dict.fromkeys(self._type(each) for each in schema[key]))
        if "enum" in schema:
            return f"Literal[{', '.join(json.dumps(each) for each in schema['enum'])}]"
        if "const" in schema:
            return f"Literal[{json.dumps(schema['const'])}]"
        kind = schema.get("type")
        if kind == "array":
            return f"list[{self._type(schema.get('items', {}))}]"
        if kind == "object":
            inner = schema.get("additionalProperties")
            return f"dict[str, {self._type(inner) if isinstance(inner, Mapping) else 'Any'}]"
        return SIMPLE.get(str(kind), "Any")

    def _named(self, name: str) -> str:
        schema = self.schemas[name]
        if "properties" not in schema:
            return self._type(schema)
        if name not in self.wanted:
            self.wanted[name] = ""  # A type may contain itself.
            members = {each: self._type(value) for each, value in schema["properties"].items()}
            self.wanted[name] = self._typed_dict(name, schema, members)
        return name

    def _typed_dict(
        self, name: str, schema: Mapping[str, Any], members: Mapping[str, str], *, total: bool = True
    ) -> str:
        needed = schema.get("required", [])
        lines = [f"class {name}(TypedDict{'' if total else ', total=False'}):"]
        if about := schema.get("description", "").split("\n\n")[0]:
            lines += [*_docstring(about), ""]
        for each, kind in members.items():
            if not each.isidentifier() or keyword.iskeyword(each):
                raise ValueError(f"{name}.{each} cannot be a member")
            optional = total and each not in needed
            lines.append(f"    {each}: {f'NotRequired[{kind}]' if optional else kind}")
        return "\n".join(lines if len(lines) > 1 else [*lines, "    pass"]).replace("\n\n\n", "\n\n")

    def _class(self, name: str, *, is_async: bool) -> str:
        word, wait = ("async ", "await ") if is_async else ("", "")
        lines = [
            f"class {name}(ABC):",
            "    @abstractmethod",
            f"    {word}def call(self, call: Call) -> Any:",
            '        """Make a call and return the answer."""',
        ]
        for each in self.operations:
            lines += ["", *self._method(each, word, wait)]
        return "\n".join(lines)

    def _method(self, each: Operation, word: str, wait: str) -> Iterator[str]:
        given = [f"{name}: {kind}" for name, kind in (*each.parameters, *each.required)]
        options = [f"**options: Unpack[{each.options}]"] if each.options else []
        signature = ", ".join(["self", *given, *options])
        line = f"    {word}def {each.name}({signature}) -> {each.answer}:"
        if len(line) > WIDTH:
            parts = "".join(f"        {part},\n" for part in ["self", *given, *options])
            line = f"    {word}def {each.name}(\n{parts}    ) -> {each.answer}:"
        yield line
        yield from _docstring(each.about, "        ")
        path = each.path
        prefix = "f" if each.parameters else ""
        for name, kind in each.parameters:
            if kind == "str":
                path = path.replace(f"{{{name}}}", f"{{quote({name}, safe='')}}")
        members = [f'"{name}": {name}' for name, _ in each.required] + (["**options"] if each.options else [])
        write = ", is_write=True" if each.is_write else ""
        if members:
            yield f"        body = {{{', '.join(members)}}}"
        body = ", body" if members else ""
        call = f'        call = Call("{each.method}", {prefix}"{path}"{body}{write})'
        if len(call) > 110:
            yield f'        path = {prefix}"{path}"'
            call = f'        call = Call("{each.method}", path{body}{write})'
        yield call
        # A field of the request may be called answer.
        answer = "result" if "answer" in dict(each.required) else "answer"
        yield f"        {answer}: {each.answer} = {wait}self.call(call)"
        yield f"        return {answer}"


def _docstring(text: str, indent: str = "    ") -> list[str]:
    """Return the lines of a docstring. If there are several, the closing quotes have their own line."""
    text = " ".join(text.split()).replace("\\", "\\\\")
    lines = textwrap.wrap(text, WIDTH - len(indent) - 3) or [""]
    if len(lines) == 1 and len(indent) + len(lines[0]) + 6 <= WIDTH:
        return [f'{indent}"""{lines[0]}"""']
    return [f'{indent}"""{lines[0]}', *(f"{indent}{line}" for line in lines[1:]), f'{indent}"""']


def render() -> dict[Path, str]:
    """Return the text of each generated file."""
    generator = Generator(json.loads(DESCRIPTION.read_text()))
    return {
        PACKAGE / "models.py": generator.models(),
        PACKAGE / "operations.py": generator.operations_module(),
    }


if __name__ == "__main__":
    for path, text in render().items():
        path.write_text(text)
