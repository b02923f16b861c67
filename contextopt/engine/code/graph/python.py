"""Imports of Python: absolute and relative, of packages, from any source root, through re-exports."""

from collections.abc import Iterable, Iterator

from tree_sitter import Node

from contextopt.engine.code.graph.grammars import Dialect, line, text, unquoted
from contextopt.engine.code.graph.values import (
    EXTERNAL,
    MISSING,
    FileSet,
    Import,
    Resolution,
    ancestors,
    join,
    parent,
)

MAX_REEXPORTS = 5

_QUERY = """
(import_statement) @_import
(import_from_statement) @_from
(call function: (_) @_called arguments: (argument_list . (string) @_dynamic)
  (#match? @_called "(^|[.])import_module$|^__import__$"))
(function_definition) @function
(class_definition) @class
"""


def _imports(capture: str, node: Node) -> Iterator[Import]:
    if capture == "_import":
        for child in node.named_children:
            yield Import(text(_unaliased(child)), line(node))
    elif capture == "_from":
        yield _from(node)
    elif capture == "_dynamic" and unquoted(node)[:1] != ".":
        yield Import(unquoted(node), line(node), "dynamic")


def _from(node: Node) -> Import:
    module = node.child_by_field_name("module_name")
    names = tuple(text(_unaliased(child)) for child in node.children_by_field_name("name"))
    if any(child.type == "wildcard_import" for child in node.children):
        names = ("*",)
    target = text(module) if module is not None else ""
    dots = len(target) - len(target.lstrip("."))
    return Import(target[dots:].strip(), line(node), "from", names, dots)


def _unaliased(node: Node) -> Node:
    return node.child_by_field_name("name") or node


DIALECT = Dialect(_QUERY, _imports)


class PythonResolver:
    """Looks up modules in every source root, the one nearest to the importing file first.

    A source root is the repository root, `src`, or a folder that holds a top-level package.
    """

    def __init__(self, fileset: FileSet) -> None:
        self._fileset = fileset
        roots = {"", "src"}
        for folder, paths in self._fileset.folders.items():
            if f"{folder}/__init__.py" in paths and not self._is_package(parent(folder)):
                roots.add(parent(folder))
        self._roots = frozenset(roots)
        tops: dict[str, set[str]] = {}
        for path in self._fileset.files:
            if path.endswith((".py", ".pyi")):
                for root in ancestors(parent(path)):
                    if root in self._roots:
                        top = path[len(root) + 1 if root else 0 :].partition("/")[0]
                        tops.setdefault(top.partition(".")[0], set()).add(root)
        self._tops = {top: frozenset(holding) for top, holding in tops.items()}
        self._exports: dict[str, dict[str, Import]] = {}
        self._found: dict[tuple[str, str], str | None] = {}

    def resolve(self, path: str, item: Import) -> Resolution:
        if item.level:
            base = _base(path, item.level)
            if base is None:
                return MISSING
            own = self._module(path, item.target, base)
            targets = self._targets(path, item.target, item.names, base)
            return Resolution(targets) if targets or own else MISSING
        targets = self._targets(path, item.target, item.names, None)
        if targets:
            return Resolution(targets)
        top = item.target.partition(".")[0]
        return MISSING if any(self._at(root, top) for root in self._tops.get(top, ())) else EXTERNAL

    def _targets(self, path: str, module: str, names: Iterable[str], base: str | None) -> tuple[str, ...]:
        """Return the file of the module, or of the modules and re-exports that the names refer to."""
        own = self._module(path, module, base)
        found: set[str] = set()
        for name in names:
            dotted = f"{module}.{name}" if module else name
            submodule = self._module(path, dotted, base) if name != "*" else None
            if submodule is not None:
                found.add(submodule)
            elif own is not None:
                found |= {own, self._origin(own, name)}
        if not found and own is not None:
            found.add(own)
        return tuple(sorted(found - {path}))

    def _module(self, path: str, dotted: str, base: str | None) -> str | None:
        relative = dotted.replace(".", "/")
        if base is not None:
            return self._at(base, relative)
        folder = parent(path)
        key = (folder, dotted)
        if key not in self._found:
            self._found[key] = self._search(folder, relative)
        return self._found[key]

    def _search(self, folder: str, relative: str) -> str | None:
        roots = self._tops.get(relative.partition("/")[0], frozenset())
        nearest = [root for root in ancestors(folder) if root in roots]
        ordered = [*nearest, *sorted(roots.difference(nearest))]
        # A script may import its neighbours. Inside a package, the folder is not a source root.
        if not self._is_package(folder):
            ordered.append(folder)
        return next((found for root in ordered if (found := self._at(root, relative))), None)

    def _at(self, folder: str, relative: str) -> str | None:
        stem = "/".join(part for part in (folder, relative) if part)
        inits = (f"{stem}/__init__.py", f"{stem}/__init__.pyi") if stem else ("__init__.py",)
        return self._fileset.first((*inits, f"{stem}.py", f"{stem}.pyi"))

    def _origin(self, module: str, name: str) -> str:
        """Follow `from .x import name` through packages to the defining file."""
        seen = {module}
        for _ in range(MAX_REEXPORTS):
            item = self._exported(module).get(name)
            if item is None:
                break
            base = _base(module, item.level) if item.level else None
            if item.level and base is None:
                break
            dotted = f"{item.target}.{name}" if item.target else name
            target = self._module(module, dotted, base) or self._module(module, item.target, base)
            if target is None or target in seen:
                break
            seen.add(target)
            module = target
        return module

    def _exported(self, module: str) -> dict[str, Import]:
        if not module.endswith(("__init__.py", "__init__.pyi")):
            return {}
        if module not in self._exports:
            imports = self._fileset.files[module].imports
            self._exports[module] = {name: item for item in imports for name in item.names}
        return self._exports[module]

    def _is_package(self, folder: str) -> bool:
        return bool(folder) and f"{folder}/__init__.py" in self._fileset.files


def _base(path: str, level: int) -> str | None:
    """Return the folder where a relative import with this many dots starts; None outside the repository."""
    return join(parent(path), "../" * (level - 1))
