"""Imports of JavaScript and TypeScript: relative, `index`, tsconfig paths, packages of a workspace."""

from collections.abc import Iterator

from tree_sitter import Node

from contextopt.engine.code.graph.grammars import Dialect, line, unquoted
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

MAX_EXTENDS = 5

_EXTENSIONS = (
    *(".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mts", ".cts", ".mjs", ".cjs"),
    *(".json", ".vue", ".svelte"),
)
# Import endings that TypeScript writes, and the endings of the source files they refer to.
_COMPILED = {".js": (".ts", ".tsx", ".jsx"), ".jsx": (".tsx",), ".mjs": (".mts",), ".cjs": (".cts",)}

_COMMON = """
(import_statement source: (string) @_import)
(export_statement source: (string) @_export)
(call_expression function: (identifier) @_called arguments: (arguments . (string) @_require)
  (#eq? @_called "require"))
(call_expression function: (import) arguments: (arguments . (string) @_dynamic))
(function_declaration) @function
(generator_function_declaration) @function
(class_declaration) @class
(method_definition) @method
(program
  (lexical_declaration (variable_declarator value: [(arrow_function) (function_expression)])) @function)
(program (export_statement
  (lexical_declaration (variable_declarator value: [(arrow_function) (function_expression)])) @function))
"""
_TYPED = """
(import_require_clause source: (string) @_require)
(abstract_class_declaration) @class
(interface_declaration) @interface
(type_alias_declaration) @type
(enum_declaration) @enum
"""


def _imports(capture: str, node: Node) -> Iterator[Import]:
    if capture != "_called" and unquoted(node):
        yield Import(unquoted(node), line(node), capture[1:])


JAVASCRIPT = Dialect(_COMMON, _imports)
TYPESCRIPT = Dialect(_COMMON + _TYPED, _imports)


class JavaScriptResolver:
    """Follows relative specifiers, the `paths` and `baseUrl` of the nearest tsconfig, and package names."""

    def __init__(self, fileset: FileSet) -> None:
        self._fileset = fileset
        self._packages = {
            parsed.settings["name"]: folder
            for folder, parsed in fileset.named("package.json")
            if parsed.settings.get("name")
        }
        self._configs: dict[str, tuple[str, dict[str, list[str]], bool] | None] = {}

    def resolve(self, path: str, item: Import) -> Resolution:
        specifier = item.target.partition("?")[0]
        if specifier.startswith((".", "/")):
            base = join(parent(path), specifier)
            return Resolution.to(None if base is None else self._at(base), path)
        return self._mapped(path, specifier) or self._from_workspace(path, specifier)

    def _mapped(self, path: str, specifier: str) -> Resolution | None:
        config = self._config(parent(path))
        if config is None:
            return None
        base, patterns, has_base = config
        is_mapped = False
        for pattern, targets in sorted(patterns.items(), key=lambda entry: (-len(entry[0]), entry[0])):
            rest = _match(pattern, specifier)
            if rest is None:
                continue
            # "*" alone matches every package, local or not.
            is_mapped = is_mapped or pattern != "*"
            for target in targets:
                place = join(base, target.replace("*", rest))
                if place is not None and (found := self._at(place)):
                    return Resolution.to(found, path)
        place = join(base, specifier) if has_base else None
        if place is not None and (found := self._at(place)):
            return Resolution.to(found, path)
        return MISSING if is_mapped else None

    def _from_workspace(self, path: str, specifier: str) -> Resolution:
        parts = specifier.split("/")
        size = 2 if specifier.startswith("@") else 1
        folder = self._packages.get("/".join(parts[:size]))
        if folder is None:
            return EXTERNAL
        rest = "/".join(parts[size:])
        places = [join(folder, rest), join(folder, f"src/{rest}")] if rest else self._entries(folder)
        found = next((found for place in places if place is not None and (found := self._at(place))), None)
        return Resolution.to(found, path)

    def _entries(self, folder: str) -> list[str | None]:
        """Return possible entry files of a package: source files before built ones."""
        settings = self._fileset.files[within(folder, "package.json")].settings
        named = [settings[key] for key in ("module", "main", "types") if key in settings]
        return [join(folder, place) for place in ("src/index", *named, "index", "src/main", "lib/index")]

    def _at(self, base: str) -> str | None:
        files = self._fileset.files
        if base in files:
            return base
        stem, dot, ending = base.rpartition(".")
        for source in _COMPILED.get(dot + ending, ()):
            if stem + source in files:
                return stem + source
        for extension in _EXTENSIONS:
            if base + extension in files:
                return base + extension
        index = within(base, "index")
        return self._fileset.first(index + extension for extension in _EXTENSIONS)

    def _config(self, folder: str) -> tuple[str, dict[str, list[str]], bool] | None:
        """Return the nearest config's base folder, its patterns, and whether the base resolves modules."""
        if folder not in self._configs:
            path = self._fileset.first(
                within(above, name)
                for above in ancestors(folder)
                for name in ("tsconfig.json", "jsconfig.json", "tsconfig.base.json")
            )
            self._configs[folder] = self._read_config(path) if path else None
        return self._configs[folder]

    def _read_config(self, path: str) -> tuple[str, dict[str, list[str]], bool]:
        """Follow `extends` to the first config with paths or a base URL."""
        for _ in range(MAX_EXTENDS):
            settings = self._fileset.files[path].settings
            if settings.get("paths") or "base" in settings:
                base = join(parent(path), settings.get("base", ".")) or ""
                return base, settings.get("paths", {}), "base" in settings
            extended = join(parent(path), settings.get("extends", ".")) or ""
            extended = self._fileset.first((extended, f"{extended}.json")) or ""
            if not extended or extended == path:
                break
            path = extended
        return parent(path), {}, False


def _match(pattern: str, specifier: str) -> str | None:
    """Return the text that the "*" of a pattern matches ("" without one), or None without a match."""
    head, star, tail = pattern.partition("*")
    if not star:
        return "" if pattern == specifier else None
    if len(specifier) >= len(head) + len(tail) and specifier.startswith(head) and specifier.endswith(tail):
        return specifier[len(head) : len(specifier) - len(tail)]
    return None
