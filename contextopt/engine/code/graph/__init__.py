"""The imports and definitions in a repository, and how relevance spreads over the import graph."""

from contextopt.engine.code.graph.importgraph import Links, build_graph
from contextopt.engine.code.graph.parsing import CODE_LANGUAGES, decode, digest_of, language_of, parse_file
from contextopt.engine.code.graph.values import (
    BINARY,
    PARSER_VERSION,
    CodeGraph,
    Import,
    ParsedFile,
    Skipped,
    Symbol,
    Unresolved,
)

__all__ = [
    "BINARY",
    "CODE_LANGUAGES",
    "PARSER_VERSION",
    "CodeGraph",
    "Import",
    "Links",
    "ParsedFile",
    "Skipped",
    "Symbol",
    "Unresolved",
    "build_graph",
    "decode",
    "digest_of",
    "language_of",
    "parse_file",
]
