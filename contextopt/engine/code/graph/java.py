"""Imports of Java: classes, packages, static members, and types of the same package."""

from collections.abc import Iterator

from tree_sitter import Node

from contextopt.engine.code.graph.grammars import Dialect, line, text
from contextopt.engine.code.graph.values import EXTERNAL, MISSING, FileSet, Import, Resolution

_QUERY = """
(package_declaration [(scoped_identifier) (identifier)] @_package)
(import_declaration) @_import
(class_declaration) @class
(interface_declaration) @interface
(enum_declaration) @enum
(record_declaration) @class
(annotation_type_declaration) @interface
(method_declaration) @method
(constructor_declaration) @method
(type_identifier) @_reference
(method_invocation object: (identifier) @_reference (#match? @_reference "^[A-Z]"))
"""


def _imports(_capture: str, node: Node) -> Iterator[Import]:
    name = next((child for child in node.named_children if child.type.endswith("identifier")), None)
    if name is None:
        return
    is_package = any(child.type == "asterisk" for child in node.children)
    is_static = any(child.type == "static" for child in node.children)
    yield Import(text(name), line(node), "static" if is_static else "import", ("*",) if is_package else ())


DIALECT = Dialect(_QUERY, _imports)


class JavaResolver:
    """Finds classes by package and file name. A wildcard refers to the used classes of its package."""

    def __init__(self, fileset: FileSet) -> None:
        self._fileset = fileset
        self._classes: dict[str, list[str]] = {}
        self._packages: dict[str, set[str]] = {}
        for path, parsed in sorted(fileset.files.items()):
            if parsed.language == "java" and not parsed.skipped:
                name = path.rpartition("/")[2].removesuffix(".java")
                self._classes.setdefault(f"{parsed.package}.{name}".lstrip("."), []).append(path)
                self._packages.setdefault(parsed.package, set()).add(name)

    def resolve(self, path: str, item: Import) -> Resolution:
        name = item.target
        if item.names == ("*",) and name in self._packages:
            used = self._packages[name].intersection(self._fileset.files[path].references)
            targets = {found for used_name in used if (found := self._nearest(f"{name}.{used_name}", path))}
            return Resolution(tuple(sorted(targets - {path})))
        # A nested class or a static member belongs to its outer class.
        while name:
            if found := self._nearest(name, path):
                return Resolution.to(found, path)
            name = name.rpartition(".")[0]
        return MISSING if item.target.rpartition(".")[0] in self._packages else EXTERNAL

    def _nearest(self, name: str, path: str) -> str | None:
        """Return the file of a class. If there are several (main, test, modules), take the closest path."""
        found = self._classes.get(name)
        if not found:
            return None
        return min(found, key=lambda other: (-_shared(other, path), other))


def _shared(one: str, other: str) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
