"""Read module locations from manifests: tsconfig.json, package.json, go.mod, Cargo.toml."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

# An unterminated string or comment matches to the end of the text, which avoids backtracking.
_STRING = r'("(?:\\.|[^"\\])*+["\\]?)'
_JSON_NOISE = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/|(/\*.*)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_GO_MODULE = re.compile(r'^[^\S\n]*+module\s+"?([^\s"]+)', re.MULTILINE)


def read_manifest(name: str, text: str) -> Mapping[str, Any] | None:
    """Return what import resolution needs of a manifest, empty if it is unreadable, None for other files."""
    reader = _READERS.get(name) or (_tsconfig if re.fullmatch(r"[jt]sconfig[\w.-]*\.json", name) else None)
    if reader is None:
        return None
    try:
        return reader(text)
    except (ValueError, RecursionError):
        return {}


def _tsconfig(text: str) -> dict[str, Any]:
    without_comments = _JSON_NOISE.sub(lambda found: found[1] or found[2] or "", text)
    value = json.loads(_TRAILING_COMMA.sub(lambda found: found[1] or "", without_comments))
    options = _dict(_dict(value).get("compilerOptions"))
    settings: dict[str, Any] = {}
    if isinstance(base := options.get("baseUrl"), str):
        settings["base"] = base
    settings["paths"] = {
        pattern: [target for target in targets if isinstance(target, str)]
        for pattern, targets in sorted(_dict(options.get("paths")).items())
        if isinstance(targets, list)
    }
    if isinstance(extends := _dict(value).get("extends"), str):
        settings["extends"] = extends
    return settings


def _package_json(text: str) -> dict[str, Any]:
    value = _dict(json.loads(text))
    return {key: value[key] for key in ("name", "main", "module", "types") if isinstance(value.get(key), str)}


def _go_mod(text: str) -> dict[str, Any]:
    found = _GO_MODULE.search(text)
    return {"module": found[1]} if found else {}


def _cargo(text: str) -> dict[str, Any]:
    value = tomllib.loads(text)
    name = _dict(value.get("package")).get("name")
    library = _dict(value.get("lib"))
    settings = {"name": library.get("name", name), "path": library.get("path")}
    return {key: item for key, item in settings.items() if isinstance(item, str)}


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_READERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "package.json": _package_json,
    "go.mod": _go_mod,
    "Cargo.toml": _cargo,
}
