"""Imports of Go: packages of the modules in the repository, and names shared inside a package."""

from collections.abc import Iterator

from tree_sitter import Node

from contextopt.engine.code.graph.grammars import Dialect, line, unquoted
from contextopt.engine.code.graph.values import EXTERNAL, MISSING, FileSet, Import, Resolution, join, parent

_QUERY = """
(package_clause (package_identifier) @_package)
(import_spec path: (_) @_import)
(function_declaration) @function
(method_declaration) @method
(type_declaration (type_spec)) @type
(type_identifier) @_reference
(call_expression function: (identifier) @_reference)
"""


def _imports(_capture: str, node: Node) -> Iterator[Import]:
    yield Import(unquoted(node), line(node))


DIALECT = Dialect(_QUERY, _imports)


class GoResolver:
    """A package is a folder, so an import refers to all its files except tests."""

    def __init__(self, fileset: FileSet) -> None:
        self._fileset = fileset
        modules = {
            parsed.settings["module"]: folder
            for folder, parsed in fileset.named("go.mod")
            if parsed.settings.get("module")
        }
        self._modules = sorted(modules.items(), key=lambda entry: (-len(entry[0]), entry[0]))

    def resolve(self, path: str, item: Import) -> Resolution:
        if item.target.startswith("."):
            folder = join(parent(path), item.target)
            return self._package(folder, path)
        for module, root in self._modules:
            if item.target == module or item.target.startswith(f"{module}/"):
                return self._package(join(root, item.target[len(module) :].lstrip("/")), path)
        vendored = self._package(f"vendor/{item.target}", path)
        return vendored if vendored.targets else EXTERNAL

    def _package(self, folder: str | None, path: str) -> Resolution:
        if folder is None:
            return MISSING
        paths = self._fileset.folders.get(folder, ())
        found = tuple(
            other
            for other in paths
            if other.endswith(".go") and not other.endswith("_test.go") and other != path
        )
        return Resolution(found) if paths else MISSING
