"""Changes JSON as text, so that everything else in a file keeps every byte, comments included."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from contextopt_connect.errors import ConnectError

_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LINE_END = re.compile(r"[ \t]*,?[ \t]*(?://[^\n]*|/\*(?:(?!\*/)[^\n])*\*/)?")
_SCALAR = re.compile(r"-?\d[\d.eE+-]*|true|false|null")
DEPTH_MAX = 100
_decode = json.JSONDecoder().raw_decode

Path = Sequence[str]


class UnreadableJson(ConnectError):
    """The text is not JSON, with or without comments."""


@dataclass(slots=True)
class Node:
    """A value and its place in the text. `begin` is where a member's name begins, otherwise `start`."""

    begin: int
    start: int
    end: int
    value: Any
    children: list["Node"] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def child(self, name: str) -> "Node | None":
        """Return the member with this name; the last one counts, as it does for JSON readers."""
        if not isinstance(self.value, dict):
            return None
        found = [each for key, each in zip(self.names, self.children, strict=True) if key == name]
        return found[-1] if found else None


def parse(text: str) -> Node:
    """Parse JSON, allowing comments and trailing commas.

    Raises:
        UnreadableJson: with the line of the fault.
    """
    try:
        node = _read(text, _skip(text, 0), 0)
        end = _skip(text, node.end)
    except (ValueError, IndexError) as error:
        raise UnreadableJson(f"is not valid JSON: {error}") from error
    if end != len(text):
        raise UnreadableJson(f"is not valid JSON: more text on line {_line_at(text, end)}")
    return node


def find(text: str, path: Path) -> Node | None:
    node: Node | None = parse(text)
    for name in path:
        node = node.child(name) if node is not None else None
    return node


def set_member(text: str, path: Path, value: Any) -> str:
    """Return the text with a new member at the path, and the objects on the way to it."""
    return _grow(text, path, value, is_item=False)


def set_members(text: str, values: Mapping[str, Any]) -> str:
    for name, value in values.items():
        text = set_member(text, [name], value)
    return text


def add_item(text: str, path: Path, value: Any) -> str:
    """Return the text with an item at the end of the array at the path, which is created if missing."""
    return _grow(text, path, value, is_item=True)


def remove_member(text: str, path: Path) -> str:
    """Return the text without the member at the path."""
    parent = find(text, path[:-1])
    assert parent is not None
    place = max(place for place, name in enumerate(parent.names) if name == path[-1])
    return _cut(text, parent, place)


def remove_item(text: str, path: Path, value: Any) -> str | None:
    """Return the text without the last item that equals the value; None if there is none."""
    array = find(text, path)
    places = [place for place, node in enumerate(array.children) if node.value == value] if array else []
    return _cut(text, array, places[-1]) if array and places else None


def _grow(text: str, path: Path, value: Any, *, is_item: bool) -> str:
    node = parse(text)
    rest = list(path)
    while rest and (below := node.child(rest[0])) is not None:
        node = below
        rest.pop(0)
    if not rest:
        if not (is_item and isinstance(node.value, list)):
            raise UnreadableJson(f"has something else at {'.'.join(path)}")
        return _add(text, node, "", value)
    if not isinstance(node.value, dict):
        raise UnreadableJson(f"has no object at {'.'.join(path[: -len(rest)]) or 'its top'}")
    new = [value] if is_item else value
    for name in reversed(rest[1:]):
        new = {name: new}
    return _add(text, node, f"{json.dumps(rest[0], ensure_ascii=False)}: ", new)


def _add(text: str, node: Node, head: str, value: Any) -> str:
    """Add a child at the end of a container, in the layout of its neighbours."""
    newline = "\r\n" if "\r\n" in text else "\n"
    last = node.children[-1] if node.children else None
    found = re.search(r"\n([ \t]+)\S", text)
    unit = found[1] if found else "  "
    if last is not None and "\n" not in text[node.start : last.begin]:
        return f"{text[: last.end]}, {head}{json.dumps(value, ensure_ascii=False)}{text[last.end :]}"
    outer = _indent_of(text, node.begin)
    inner = _indent_of(text, last.begin) if last is not None else outer + unit
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    new = f"{newline}{inner}{head}{f'{newline}{inner}'.join(lines)}"
    if last is not None:
        # The new child follows the comment on the last one's line.
        line_end = found.end() if (found := _LINE_END.match(text, last.end)) else last.end
        rest = text[last.end : line_end]
        if _comma(rest) >= 0:
            return f"{text[:line_end]}{new},{text[line_end:]}"
        return f"{text[: last.end]},{rest}{new}{text[line_end:]}"
    inside = text[node.start + 1 : node.end - 1].rstrip()
    return f"{text[: node.start + 1]}{inside}{new}{newline}{outer}{text[node.end - 1 :]}"


def _cut(text: str, parent: Node, place: int) -> str:
    """Cut a child, and the comma behind it or else the one before it. Comments stay."""
    child, others = parent.children[place], parent.children
    start = others[place - 1].end if place else parent.start + 1
    end = others[place + 1].begin if place + 1 < len(others) else parent.end - 1
    lead, tail = text[start : child.begin], text[child.end : end]
    if (comma := _comma(tail)) >= 0:
        tail = tail[:comma] + tail[comma + 1 :]
    elif (comma := _comma(lead)) >= 0:
        lead = lead[:comma] + lead[comma + 1 :]
    return text[:start] + lead.rstrip() + tail + text[end:]


def _comma(text: str) -> int:
    """Return the place of the comma outside comments; -1 without one."""
    return _COMMENT.sub(lambda found: " " * len(found[0]), text).find(",")


def _indent_of(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip())]


def _skip(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    return found.end() if found else place


def _read(text: str, place: int, depth: int) -> Node:
    if depth > DEPTH_MAX:
        raise ValueError("it is nested too deeply")
    if text[place : place + 1] in {"{", "["}:
        return _read_container(text, place, depth)
    if text[place : place + 1] == '"':
        value, end = _decode(text, place)
        return Node(place, place, end, value)
    found = _SCALAR.match(text, place)
    if found is None:
        raise ValueError(f"unexpected text on line {_line_at(text, place)}")
    return Node(place, place, found.end(), json.loads(found[0]))


def _read_container(text: str, start: int, depth: int) -> Node:
    closing = "}" if text[start] == "{" else "]"
    node = Node(start, start, start, {} if closing == "}" else [])
    place = _skip(text, start + 1)
    while text[place] != closing:
        begin = place
        if closing == "}":
            place = _read_name(text, place, node)
        child = _read(text, place, depth + 1)
        child.begin = begin
        node.children.append(child)
        place = _skip(text, child.end)
        if text[place] not in {",", closing}:
            raise ValueError(f"a comma is missing on line {_line_at(text, place)}")
        place = _skip(text, place + 1) if text[place] == "," else place
    node.end = place + 1
    values = [child.value for child in node.children]
    node.value = dict(zip(node.names, values, strict=True)) if closing == "}" else values
    return node


def _read_name(text: str, place: int, node: Node) -> int:
    if text[place] != '"':
        raise ValueError(f"a name is missing on line {_line_at(text, place)}")
    name, end = _decode(text, place)
    colon = _skip(text, end)
    if text[colon] != ":":
        raise ValueError(f"a colon is missing on line {_line_at(text, colon)}")
    node.names.append(name)
    return _skip(text, colon + 1)


def _line_at(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1
