"""Imports of Rust: `mod`, `use` from crate, self and super, and the crates of a workspace."""

import re
from collections.abc import Iterator

from tree_sitter import Node

from contextopt.engine.code.graph.grammars import Dialect, line, text
from contextopt.engine.code.graph.values import (
    EXTERNAL,
    MISSING,
    FileSet,
    Import,
    Resolution,
    ancestors,
    join,
    parent,
    within,
)

MAX_USE_PATHS = 200

_QUERY = """
(mod_item name: (identifier) @_mod !body)
(use_declaration argument: (_) @_use)
(function_item) @function
(function_signature_item) @function
(struct_item) @struct
(enum_item) @enum
(union_item) @struct
(trait_item) @trait
(impl_item) @impl
(type_item) @type
(macro_definition) @macro
"""
_PATH_ATTRIBUTE = re.compile(r'path\s*=\s*"([^"]+)"')
_TOKEN = re.compile(r"::|[{},*]|\bas\b|(?:r#)?\w+")


def _imports(capture: str, node: Node) -> Iterator[Import]:
    # Modules written inline around the import.
    level, above = 0, node.parent
    while above is not None:
        level += above.type == "mod_item" and above.child_by_field_name("body") is not None
        above = above.parent
    if capture == "_mod":
        yield Import(_path_attribute(node) or text(node), line(node), "mod", level=level)
    elif capture == "_use":
        for position, target in enumerate(use_paths(text(node))):
            if position == MAX_USE_PATHS:
                break
            yield Import(target, line(node), "use", level=level)


def use_paths(tree: str) -> Iterator[str]:
    """Yield the paths of a use tree: `a::{b, c::{self, d as e}}` gives a::b, a::c, a::c::d."""
    tokens = _TOKEN.findall(tree)
    prefixes: list[list[str]] = [[]]
    current: list[str] = []
    is_alias = False
    for sign in [*tokens, ","]:
        if sign == "{":
            prefixes.append(prefixes[-1] + current)
            current = []
        elif sign in (",", "}"):
            if current:
                yield "::".join(part for part in prefixes[-1] + current if part != "*").removesuffix("::self")
            current, is_alias = [], False
            if sign == "}" and len(prefixes) > 1:
                prefixes.pop()
        elif sign == "as":
            is_alias = True
        elif sign != "::" and not is_alias:
            current.append(sign.removeprefix("r#"))


def _path_attribute(name: Node) -> str:
    before = name.parent.prev_named_sibling if name.parent is not None else None
    if before is None or before.type != "attribute_item":
        return ""
    found = _PATH_ATTRIBUTE.search(text(before))
    return found[1] if found else ""


DIALECT = Dialect(_QUERY, _imports)


class RustResolver:
    """Follows module paths from the crate, the file or its parent, as far as files exist."""

    def __init__(self, fileset: FileSet) -> None:
        self._fileset = fileset
        self._crates: dict[str, str] = {}
        for folder, parsed in fileset.named("Cargo.toml"):
            name = parsed.settings.get("name")
            named = parsed.settings.get("path")
            places = [named] if named else []
            entry = self._fileset.first(
                place
                for name in (*places, "src/lib.rs", "src/main.rs", "lib.rs", "main.rs")
                if (place := join(folder, name))
            )
            if name and entry:
                self._crates[name.replace("-", "_")] = entry

    def resolve(self, path: str, item: Import) -> Resolution:
        if item.kind == "mod":
            return self._mod(path, item)
        head, *rest = item.target.split("::")
        if head == "crate":
            return self._down(self._crate_folder(path), rest, path)
        if head in ("self", "super"):
            return self._relative(path, item)
        if head in self._crates:
            entry = self._crates[head]
            found = self._down(parent(entry), rest, path)
            return found if found.targets else Resolution((entry,))
        # A module declared in this file is named without a prefix.
        below = self._down(_module_folder(path), [head, *rest], path)
        return below if below.targets else EXTERNAL

    def _mod(self, path: str, item: Import) -> Resolution:
        if item.target.endswith(".rs"):
            place = join(parent(path), item.target)
            candidates = [place] if place else []
        else:
            # A file in tests/, examples/ or src/bin/ is its own crate, with its modules next to it.
            candidates = [
                within(folder, f"{item.target}{ending}")
                for folder in (_module_folder(path), parent(path))
                for ending in (".rs", "/mod.rs")
            ]
        found = self._fileset.first(candidates)
        if found is None:
            # Inside an inline module the folder has that module's name, which is not stored.
            return EXTERNAL if item.level else MISSING
        return Resolution((found,))

    def _relative(self, path: str, item: Import) -> Resolution:
        parts = item.target.split("::")
        levels = -item.level
        while parts and parts[0] in ("self", "super"):
            levels += parts.pop(0) == "super"
        if levels < 0 or (levels == 0 and not parts):
            return Resolution(())
        folder = _module_folder(path)
        for _ in range(levels):
            folder = parent(folder)
        return self._down(folder, parts, path)

    def _down(self, folder: str, parts: list[str], path: str) -> Resolution:
        """Return the longest prefix of the parts that is a module file, or else the folder's own module."""
        for size in range(len(parts), 0, -1):
            stem = within(folder, "/".join(parts[:size]))
            if found := self._fileset.first((f"{stem}.rs", f"{stem}/mod.rs")):
                return Resolution.to(found, path)
        own = self._fileset.first(
            (f"{folder}/mod.rs", f"{folder}.rs", within(folder, "lib.rs"), within(folder, "main.rs"))
        )
        return Resolution.to(own, path)

    def _crate_folder(self, path: str) -> str:
        for folder in ancestors(parent(path)):
            if self._fileset.first((within(folder, "lib.rs"), within(folder, "main.rs"))):
                return folder
            if within(folder, "Cargo.toml") in self._fileset.files:
                return within(folder, "src")
        return parent(path)


def _module_folder(path: str) -> str:
    """Return the folder of a file's child modules."""
    folder, _, name = path.rpartition("/")
    stem = name.removesuffix(".rs")
    return folder if stem in ("mod", "lib", "main") else within(folder, stem)
