"""Parse a file's bytes into imports and definitions. No content makes it fail or take long."""

import hashlib
from collections.abc import Callable, Sequence

from contextopt.engine.code.graph import golang, headings, java, javascript, python, rust
from contextopt.engine.code.graph.grammars import Dialect, Reading, read
from contextopt.engine.code.graph.manifests import read_manifest
from contextopt.engine.code.graph.values import BINARY, ParsedFile, Symbol

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
    "markdown": headings.markdown,
    "rst": headings.restructured_text,
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
