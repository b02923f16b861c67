"""Fences round text that others wrote, so that a model reads it as data.

Whatever the text says, nothing in it can close its fence, open another, or pose as one of the markers
that the product itself writes: every line of it is quoted, and a bracket before a marker's word is
replaced by a parenthesis. The fence carries a digest of the text, which the text cannot contain.
"""

import hashlib
import re
import unicodedata

from contextopt.engine.text import flatten

STRATEGY_HINT = "STRATEGY HINT"
EXTERNAL_DATA = "EXTERNAL DATA"
QUOTE = "> "
DIGEST_CHARS = 8
INDENT_MAX = 40

# The first words of all markers: the fences' own, those of retries and changed files, and those that
# models were trained to obey.
_MARKER = re.compile(
    r"/?(?:end|begin|start|strategy|retry|external|data|hint|context|memory|task|new|deleted|full|truncated"
    r"|system|inst|user|assistant|developer|tool|important|instruction)"
)
_LOOK_AHEAD = 24


def fence(text: str, label: str, note: str = "") -> str:
    """Return the text between `[LABEL digest: note]` and `[END LABEL digest]`, each line of it quoted."""
    lines = [QUOTE + line for line in quiet_lines(text)]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGEST_CHARS]
    opening = f"[{label} {digest}: {note}]" if note else f"[{label} {digest}]"
    return "\n".join([opening, *lines, f"[END {label} {digest}]"])


def quiet_lines(text: str) -> list[str]:
    """Return the text's lines without control characters and without anything that reads as a marker."""
    return [_quieten(_indent(line) + flatten(line)) for line in text.splitlines()]


def has_marker(text: str) -> bool:
    """Say whether a bracket of any script stands before a marker's word, whatever hides between the two."""
    return any(_opens_marker(text, place) for place in range(len(text)))


def _indent(line: str) -> str:
    """Keep the indentation of code; tabs count four."""
    start = line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4)
    return start[:INDENT_MAX]


def _quieten(line: str) -> str:
    return "".join("(" if _opens_marker(line, place) else character for place, character in enumerate(line))


def _opens_marker(line: str, place: int) -> bool:
    if not _is_bracket(line[place]):
        return False
    # What is neither letter nor digit does not keep a reader from seeing the word.
    rest = unicodedata.normalize("NFKD", line[place + 1 : place + 1 + _LOOK_AHEAD])
    word = "".join(character for character in rest if character.isalnum() or character == "/").lower()
    return _MARKER.match(word) is not None


def _is_bracket(character: str) -> bool:
    if character.isascii():
        return character == "["
    # Any opening punctuation of another script looks like a bracket to somebody.
    return unicodedata.category(character) == "Ps"
