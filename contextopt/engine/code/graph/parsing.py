"""Parse a file's bytes into imports and definitions. No content makes it fail or take long."""

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from contextopt.engine.code.graph import golang, java, javascript, python, rust
from contextopt.engine.code.graph.grammars import Dialect, Reading, read
from contextopt.engine.code.graph.values import BINARY, ParsedFile, Symbol

_HASHES = re.compile(r"(#{1,6})\s+(\S.*)")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_UNDERLINE = re.compile(r"([=\-~^\"'#*+.:_`])\1{2,}\s*")


def markdown(lines: Sequence[str]) -> tuple[Symbol, ...]:
    """Return the sections of a Markdown file by its `#` headings, ignoring code blocks."""
    return _sections(lines, list(_hashes(lines)))


def restructured_text(lines: Sequence[str]) -> tuple[Symbol, ...]:
    """Return the sections of a reStructuredText file by its underlined headings."""
    return _sections(lines, list(_underlined(lines)))


def _hashes(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    is_code = False
    for number, content in enumerate(lines, 1):
        if _FENCE.match(content):
            is_code = not is_code
        elif not is_code and (found := _HASHES.match(content)):
            yield number, len(found[1]) - 1, found[2]


def _underlined(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield underlined titles. A sign's depth is the order of its first use in the document."""
    signs: list[str] = []
    for number, (title, beneath) in enumerate(pairwise(lines), 1):
        found = _UNDERLINE.fullmatch(beneath)
        if found and title.strip() and not title[0].isspace() and not _UNDERLINE.fullmatch(title):
            if len(beneath.rstrip()) < len(title.rstrip()):
                continue
            if found[1] not in signs:
                signs.append(found[1])
            yield number, signs.index(found[1]), title


def _sections(lines: Sequence[str], titles: list[tuple[int, int, str]]) -> tuple[Symbol, ...]:
    """Extend each heading's section to the next heading of its depth or higher."""
    ends = [len(lines)] * len(titles)
    unended: list[int] = []
    for position, (start, depth, _) in enumerate(titles):
        while unended and titles[unended[-1]][1] >= depth:
            ends[unended.pop()] = start - 1
        unended.append(position)
    sections = []
    for (start, depth, title), end in zip(titles, ends, strict=True):
        name = title.strip().rstrip("#").strip()
        sections.append(Symbol(name[:120], "heading", start, max(start, end), name[:120], depth))
    return tuple(sections)


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


MAX_BYTES = 512_000
MAX_MEAN_LINE = 500
"""A file with a longer mean line is minified or generated code, or data."""
MAX_REFERENCES = 500
_SNIFFED = 8192

_EXTENSIONS = {
    "py": "python",
    "pyi": "python",
    "pyw": "python",
    "js": "javascript",
    "jsx": "javascript",
    "mjs": "javascript",
    "cjs": "javascript",
    "ts": "typescript",
    "mts": "typescript",
    "cts": "typescript",
    "tsx": "tsx",
    "go": "go",
    "rs": "rust",
    "java": "java",
    "md": "markdown",
    "markdown": "markdown",
    "rst": "rst",
}
_DIALECTS: dict[str, Dialect] = {
    "python": python.DIALECT,
    "javascript": javascript.JAVASCRIPT,
    "typescript": javascript.TYPESCRIPT,
    "tsx": javascript.TYPESCRIPT,
    "go": golang.DIALECT,
    "rust": rust.DIALECT,
    "java": java.DIALECT,
}
_DOCUMENTS: dict[str, Callable[[Sequence[str]], tuple[Symbol, ...]]] = {
    "markdown": markdown,
    "rst": restructured_text,
}
CODE_LANGUAGES = frozenset(_DIALECTS)


def language_of(path: str) -> str:
    """Return the language by the file's extension, "" if it is not known."""
    return _EXTENSIONS.get(path.rpartition("/")[2].rpartition(".")[2].lower(), "")


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of a content in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def decode(content: bytes) -> str:
    """Return a content as text without its byte order mark. Invalid UTF-8 becomes U+FFFD."""
    return content.decode("utf-8-sig", "replace")


def why_skipped(content: bytes) -> str:
    """Return why a file is skipped: "binary", "too large" or "minified", or "" if it is not."""
    if b"\0" in content[:_SNIFFED]:
        return BINARY
    if len(content) > MAX_BYTES:
        return "too large"
    if len(content) > _SNIFFED and len(content) / (content.count(b"\n") + 1) > MAX_MEAN_LINE:
        return "minified"
    return ""


def parse_file(path: str, content: bytes) -> ParsedFile:
    """Read one file. The path only decides the language and the kind of manifest."""
    language, digest = language_of(path), digest_of(content)
    if reason := why_skipped(content):
        return ParsedFile(language, digest, skipped=reason)
    text = decode(content)
    lines = text.split("\n")
    count = len(lines) - (lines[-1] == "")
    if language in _DIALECTS:
        return _code(language, digest, count, read(language, _DIALECTS[language], content))
    manifest = read_manifest(path.rpartition("/")[2], text)
    if manifest is not None:
        return ParsedFile("manifest", digest, lines=count, settings=manifest)
    symbols = _DOCUMENTS[language](lines[:count]) if language in _DOCUMENTS else ()
    return ParsedFile(language, digest, lines=count, symbols=symbols)


def _code(language: str, digest: str, lines: int, reading: Reading) -> ParsedFile:
    return ParsedFile(
        language=language,
        digest=digest,
        lines=lines,
        imports=reading.imports,
        symbols=reading.symbols,
        package=reading.package,
        references=reading.references[:MAX_REFERENCES],
        problems=reading.problems,
    )
