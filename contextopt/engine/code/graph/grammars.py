"""Tree-sitter grammars, each loaded once, and the reading of files that all languages share."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache

import tree_sitter
import tree_sitter_go
import tree_sitter_java
import tree_sitter_javascript
import tree_sitter_python
import tree_sitter_rust
import tree_sitter_typescript
from tree_sitter import Node

from contextopt.engine.code.graph.values import Import, Symbol

MAX_SIGNATURE_CHARS = 300
MAX_PROBLEMS = 20

# A grammar reports progress about four times per thousand bytes, and twenty times in dense code. After an
# error, each such step may take milliseconds. Steps are limited by number, not by time, so that the same
# bytes always give the same result.
_MAX_STEPS = 12_000
_MAX_STEPS_AFTER_ERROR = 500
# After this many steps, let other threads run. The grammar would hold the interpreter for seconds.
_STEPS_AT_ONCE = 16
_CHUNK = 65_536
_WITH_METHODS = frozenset({"class", "impl", "trait"})

_POINTERS: dict[str, Callable[[], object]] = {
    "python": tree_sitter_python.language,
    "javascript": tree_sitter_javascript.language,
    "typescript": tree_sitter_typescript.language_typescript,
    "tsx": tree_sitter_typescript.language_tsx,
    "go": tree_sitter_go.language,
    "rust": tree_sitter_rust.language,
    "java": tree_sitter_java.language,
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to read a language.

    `query` captures definitions under the name of their kind, and everything else under a name that begins
    with an underscore; those captures go to `imports`.
    """

    query: str
    imports: Callable[[str, Node], Iterable[Import]]


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading a file with a grammar."""

    imports: tuple[Import, ...]
    symbols: tuple[Symbol, ...]
    package: str
    references: tuple[str, ...]
    problems: tuple[int, ...]


@cache
def _language(name: str) -> tree_sitter.Language:
    return tree_sitter.Language(_POINTERS[name]())


@cache
def _query(name: str, query: str) -> tree_sitter.Query:
    return tree_sitter.Query(_language(name), query)


def read(language: str, dialect: Dialect, content: bytes) -> Reading:
    """Read a file. Unreadable parts are skipped and their lines reported."""
    root = _parse(language, content)
    if root is None:
        return Reading((), (), "", (), problems=(1,))
    captures = tree_sitter.QueryCursor(_query(language, dialect.query)).captures(root)
    imports: list[Import] = []
    symbols: list[Symbol] = []
    package = ""
    references: set[str] = set()
    for capture, nodes in sorted(captures.items()):
        if capture == "_package":
            package = text(nodes[0])
        elif capture == "_reference":
            references |= {text(node) for node in nodes}
        elif capture.startswith("_"):
            imports += (found for node in nodes for found in dialect.imports(capture, node))
        else:
            symbols += (_symbol(capture, node, content) for node in nodes)
    own = {symbol.name for symbol in symbols}
    return Reading(
        imports=tuple(sorted(set(imports), key=lambda item: (item.line, item.target, item.kind, item.names))),
        symbols=_nested(symbols),
        package=package,
        references=tuple(sorted(references - own)),
        problems=_problems(root) if root.has_error else (),
    )


def _parse(language: str, content: bytes) -> Node | None:
    """Return the root of the tree, or None if the grammar takes too many steps."""
    steps = steps_after_error = 0

    def takes_too_long(_offset: int, has_error: bool) -> bool:  # tree-sitter calls it
        nonlocal steps, steps_after_error
        steps += 1
        steps_after_error += has_error
        if steps % _STEPS_AT_ONCE == 0:
            time.sleep(0)
        return steps > _MAX_STEPS or steps_after_error > _MAX_STEPS_AFTER_ERROR

    def chunk(offset: int, _point: object) -> bytes:
        return content[offset : offset + _CHUNK]

    try:
        tree = tree_sitter.Parser(_language(language)).parse(chunk, progress_callback=takes_too_long)
    except ValueError:
        return None
    return tree.root_node


def text(node: Node) -> str:
    """Return the source of a node. Invalid UTF-8 becomes U+FFFD."""
    return (node.text or b"").decode("utf-8", "replace")


def line(node: Node) -> int:
    """Return the line where a node starts, from 1."""
    return int(node.start_point[0]) + 1


def unquoted(node: Node) -> str:
    """Return the source of a string literal without its quotes."""
    return text(node).strip("\"'`")


def _symbol(kind: str, node: Node, content: bytes) -> Symbol:
    name = node.child_by_field_name("name") or node.child_by_field_name("type")
    start, body = node, _body(node)
    if node.parent is not None and node.parent.type in ("decorated_definition", "export_statement"):
        start = node.parent
    end = body.start_byte if body is not None else node.end_byte
    head = content[node.start_byte : min(end, node.start_byte + 4 * MAX_SIGNATURE_CHARS)]
    signature = " ".join(head.decode("utf-8", "replace").split()).rstrip(" :{=>")
    return Symbol(
        name=text(name) if name is not None else _declared(node),
        kind=kind,
        start=line(start),
        end=int(node.end_point[0]) + 1,
        signature=signature[:MAX_SIGNATURE_CHARS],
    )


def _body(node: Node) -> Node | None:
    body = node.child_by_field_name("body")
    if body is None:
        for child in node.named_children:
            value = child.child_by_field_name("value") or child.child_by_field_name("type")
            if value is not None and (body := value.child_by_field_name("body") or _fields(value)):
                break
    return body


def _fields(node: Node) -> Node | None:
    """Return the body in braces of a Go struct or interface."""
    return next((child for child in node.children if child.type in ("field_declaration_list", "{")), None)


def _declared(node: Node) -> str:
    """Return the name inside a wrapping declaration: `const name = () => …`, `type Name struct`."""
    for child in node.named_children:
        if (name := child.child_by_field_name("name")) is not None:
            return text(name)
    return ""


def _nested(symbols: list[Symbol]) -> tuple[Symbol, ...]:
    """Sort by line, set each symbol's nesting depth, and turn functions inside classes into methods."""
    around: list[Symbol] = []
    nested = []
    for symbol in sorted(symbols, key=lambda item: (item.start, -item.end, item.name, item.kind)):
        while around and around[-1].end < symbol.end:
            around.pop()
        kind = symbol.kind
        if kind == "function" and around and around[-1].kind in _WITH_METHODS:
            kind = "method"
        nested.append(replace(symbol, kind=kind, depth=len(around)))
        around.append(symbol)
    return tuple(nested)


def _problems(root: Node) -> tuple[int, ...]:
    """Return the first lines that the grammar could not read."""
    lines: set[int] = set()
    stack = [root]
    while stack and len(lines) < MAX_PROBLEMS:
        node = stack.pop()
        if node.is_error or node.is_missing:
            lines.add(line(node))
        elif node.has_error:
            stack += reversed(node.children)
    return tuple(sorted(lines))
