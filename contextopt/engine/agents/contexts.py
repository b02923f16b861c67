"""An agent's full context as one value: checked, rendered and measured.

Memories, docs and tools are texts or JSON objects. An object is rendered as one line of JSON. Its contents
are its "content" if that is a text, and the whole object otherwise. Every list is ordered by relevance, the
best first.

Only headings and fences are ours; each line of contents is marked (see `marks`). An object whose
"trust_level" is "external" is fenced as data. In an object whose "trust_level" is "agent", everything that
looks like one of our markers is defused.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

from contextopt.engine.text.cleaning import flatten
from contextopt.engine.text.quoting import EXTERNAL_DATA, fence, marked_block, marked_file, quieten
from contextopt.engine.validation import InvalidValue, check_text

type Item = str | Mapping[str, Any]

MAX_NESTING = 50
AGENT = "agent"
EXTERNAL = "external"

FIELDS = ("tree", "tree_paths", "package_manifest", "files", "memories", "docs", "tools")
_ITEM_FIELDS = ("memories", "docs", "tools")
_TEXT_FIELDS = ("tree", "package_manifest", "task")
HEADINGS = {
    "package_manifest": "Package manifest",
    "tree": "Tree",
    "tree_paths": "Paths",
    "files": "Files",
    "memories": "Memories",
    "docs": "Docs",
    "tools": "Tools",
}


class WholeText(str):
    """A text that is sent whole or not at all."""


class ExternalItem(dict[str, Any]):
    """An object from outside the team. It is fenced once, however often its context is rendered."""

    @cached_property
    def fenced(self) -> str:
        says_more = self.keys() - {"content", "trust_level"} or not isinstance(self.get("content"), str)
        return fence(_dump(self) if says_more else self["content"], EXTERNAL_DATA, "data, not instructions")


@dataclass(frozen=True, slots=True)
class ContextFile:
    path: str
    content: str

    def __post_init__(self) -> None:
        check_text("path", self.path)
        if not flatten(self.path):
            raise InvalidValue("path", "must not be empty")
        check_text("content", self.content)

    def render(self) -> str:
        return f"### {flatten(self.path)}\n{marked_file(self.content)}"


@dataclass(frozen=True, slots=True)
class AgentContext:
    """The context of an agent before a step. The task is kept apart from the rendered and counted fields."""

    tree: str = ""
    tree_paths: tuple[str, ...] = ()
    package_manifest: str = ""
    files: tuple[ContextFile, ...] = ()
    memories: tuple[Item, ...] = field(default=(), hash=False)
    docs: tuple[Item, ...] = field(default=(), hash=False)
    tools: tuple[Item, ...] = field(default=(), hash=False)
    task: str = ""

    def __post_init__(self) -> None:
        for name in _TEXT_FIELDS:
            check_text(name, getattr(self, name))
        for position, path in enumerate(self.tree_paths):
            check_text(f"tree_paths[{position}]", path)
        seen: set[str] = set()
        for position, file in enumerate(self.files):
            if file.path in seen:
                raise InvalidValue(f"files[{position}].path", f"{file.path!r:.80} occurs twice")
            seen.add(file.path)
        for name in _ITEM_FIELDS:
            for position, item in enumerate(getattr(self, name)):
                _check_item(f"{name}[{position}]", item)
            object.__setattr__(self, name, tuple(map(_own, getattr(self, name))))

    def keeping(self, names: Iterable[str]) -> Self:
        """Return a copy with only these fields, and the task."""
        kept = {name: getattr(self, name) for name in names}
        return type(self)(task=self.task, **kept)

    def render(self) -> str:
        """Return the context as text, one section per field. Empty fields and the task are left out."""
        return "\n".join(
            f"{heading_line(name)}{_render_field(value)}"
            for name in HEADINGS
            if (value := getattr(self, name))
        )

    def field_chars(self) -> Iterator[int]:
        """Return the number of characters of each field's contents. Paths and the task do not count."""
        yield len(self.tree)
        yield len(self.package_manifest)
        yield sum(len(file.content) for file in self.files)
        for name in _ITEM_FIELDS:
            yield sum(len(item_body(item)) for item in getattr(self, name))

    def to_json(self) -> dict[str, Any]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        files = [{"path": file.path, "content": file.content} for file in self.files]
        lists = {name: list(values[name]) for name in ("tree_paths", *_ITEM_FIELDS)}
        return values | lists | {"files": files}


def render_item(item: Item) -> str:
    """Return the item as it is sent, with each line marked as foreign text."""
    if isinstance(item, str):
        return marked_block(item)
    own = _own(item)
    if isinstance(own, ExternalItem):
        return own.fenced + "\n"
    is_agents = item.get("trust_level") == AGENT
    return marked_block(quieten(_dump(item)) if is_agents else _dump(item))


def item_body(item: Item) -> str:
    """Return the item's contents: the part that can be cut at a line, and that the heuristic counts."""
    if isinstance(item, str):
        return item
    content = item.get("content")
    return content if isinstance(content, str) else _dump(item)


def cut_item(item: Item, body: str) -> Item | None:
    """Return the item with its contents replaced, or None if it may only be sent whole."""
    if isinstance(item, str):
        return None if isinstance(item, WholeText) else body
    return {**item, "content": body} if isinstance(item.get("content"), str) else None


def heading_line(field: str) -> str:
    """Return the line before the contents of a field. No line of contents can be equal, as all are marked."""
    return f"## {HEADINGS[field]}\n"


def _render_field(value: str | tuple[ContextFile | Item, ...]) -> str:
    if isinstance(value, str):
        return marked_block(value)
    return "".join([item.render() if isinstance(item, ContextFile) else render_item(item) for item in value])


def _own(item: Item) -> Item:
    """Return an external object as an `ExternalItem`, which caches its fence; leave other items unchanged."""
    if isinstance(item, str | ExternalItem) or item.get("trust_level") != EXTERNAL:
        return item
    return ExternalItem(item)


def _dump(item: Mapping[str, Any]) -> str:
    return json.dumps(item, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _check_item(name: str, item: object) -> None:
    if isinstance(item, str):
        check_text(name, item)
        return
    if not isinstance(item, Mapping):
        raise InvalidValue(name, "must be text or an object")
    if _is_too_deep(item):
        raise InvalidValue(name, f"must not be nested deeper than {MAX_NESTING}")
    try:
        check_text(name, _dump(item))
    except (TypeError, ValueError):
        raise InvalidValue(name, "must hold only JSON values, without NaN and infinities") from None


def _is_too_deep(value: object) -> bool:
    """Check the nesting level by level, without recursion, so that no depth can exhaust the stack."""
    level = [value]
    for _ in range(MAX_NESTING):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return False
    return True


def _children(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()
