"""Parse a file's bytes into imports and definitions. No content makes it fail or take long."""

import codecs
import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from contextopt.engine.code.graph import golang, java, javascript, python, rust
from contextopt.engine.code.graph.grammars import Dialect, Reading, read
from contextopt.engine.code.graph.values import BINARY, MINIFIED, ParsedFile, Symbol

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


# Longer marks come first, since that of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# As editors and Python declare it, and XML, HTML and CSS.
_DECLARED = re.compile(
    rb"\A(?:[^\n]*\n)?[^\n]*?coding[:=][ \t]*([-\w.]+)"
    rb"|\A\s*<\?xml[^>]*?encoding=[\"']([-\w.]+)"
    rb"|<meta[^>]*?charset=[\"']?([-\w.]+)"
    rb"|\A@charset \"([-\w.]+)\""
)
_DECLARED_BYTES = 1_024
# Python knows others, which are no encodings of text or take more than linear time.
_TEXT_ENCODINGS = re.compile(
    r"ascii|utf-(?:8|8-sig|16|16-le|16-be|32|32-le|32-be)|cp\d+|iso8859-\d+|iso2022_\w+|koi8-\w|mac-\w+"
    r"|gb\w+|big5\w*|euc_\w+|shift_jis\w*|hz|johab|tis-620|ptcp154|kz1048"
)


def encoding_of(content: bytes) -> str:
    """Return the encoding that a content's mark or its first lines declare, UTF-8 without one."""
    for mark, name in _MARKS:
        if content.startswith(mark):
            return name
    head = content[:_DECLARED_BYTES]
    if b"coding" not in head and b"charset" not in head:
        return "utf-8"
    found = _DECLARED.search(head)
    try:
        name = codecs.lookup(next(filter(None, found.groups())).decode()).name if found else "utf-8"
    except LookupError:
        return "utf-8"
    # A declaration in plain bytes cannot be true of an encoding with two bytes a letter.
    return name if _TEXT_ENCODINGS.fullmatch(name) and not name.startswith(("utf-16", "utf-32")) else "utf-8"


def decode(content: bytes) -> str:
    """Return a content as text without its byte order mark. Invalid bytes become U+FFFD."""
    return content.decode(encoding_of(content), "replace").removeprefix("\ufeff")


def why_skipped(content: bytes) -> str:
    """Return why a file is skipped: "binary", "too large" or "minified", or "" if it is not."""
    if b"\0" in content[:_SNIFFED] and not encoding_of(content).startswith(("utf-16", "utf-32")):
        return BINARY
    if len(content) > MAX_BYTES:
        return "too large"
    if len(content) > _SNIFFED and len(content) / (content.count(b"\n") + 1) > MAX_MEAN_LINE:
        return MINIFIED
    return ""


# In a comment of the first lines. A program that writes such files has the words in its texts further down.
_GENERATED = re.compile(
    r"^[ \t]*[^\w\s\"'][^\n]{0,200}?(?:@generated\b|\bDO NOT (?:EDIT|MODIFY)\b|<auto-generated"
    r"|\b(?i:auto-?generated|automatically generated|(?:file|code) (?:is|was|has been) generated"
    r"|generated by\b|generated code|machine generated))",
    re.MULTILINE,
)
_GENERATED_CHARS = 1_500


def says_generated(text: str) -> bool:
    """Return whether the first lines of a file say that a program wrote it."""
    return _GENERATED.search(text, 0, _GENERATED_CHARS) is not None


def parse_file(path: str, content: bytes) -> ParsedFile:
    """Read one file. The path only decides the language and the kind of manifest."""
    language, digest = language_of(path), digest_of(content)
    if reason := why_skipped(content):
        return ParsedFile(language, digest, skipped=reason)
    text = decode(content)
    lines = text.split("\n")
    count = len(lines) - (lines[-1] == "")
    is_generated = says_generated(text)
    if language in _DIALECTS:
        utf8 = content if encoding_of(content) in _UTF8 else text.encode()
        found = _code(language, digest, count, read(language, _DIALECTS[language], utf8))
        return replace(found, is_generated=is_generated) if is_generated else found
    manifest = read_manifest(path.rpartition("/")[2], text)
    if manifest is not None:
        return ParsedFile("manifest", digest, lines=count, settings=manifest)
    symbols = _DOCUMENTS[language](lines[:count]) if language in _DOCUMENTS else ()
    return ParsedFile(language, digest, lines=count, symbols=symbols, is_generated=is_generated)


_UTF8 = ("utf-8", "utf-8-sig", "ascii")


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
