"""Fences round text that others wrote, so that a model reads it as data.

Whatever the text says, nothing in it can close its fence, open another, or pose as one of the markers
that the product itself writes: every line of it is quoted, and a bracket before a marker's word is
replaced by a parenthesis. The fence carries a digest of the text, which the text cannot contain.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence

from contextopt.engine.text.cleaning import flatten
from contextopt.engine.text.marks import MARK

STRATEGY_HINT = "STRATEGY HINT"
EXTERNAL_DATA = "EXTERNAL DATA"
DIGEST_CHARS = 8
INDENT_MAX = 40

# The first words of all markers: the fences' own, those of retries and changed files, and those that
# models were trained to obey. None begins with another.
_WORDS = (
    *("end", "begin", "start", "strategy", "retry", "external", "data", "hint", "context", "memory", "task"),
    *("new", "deleted", "full", "truncated"),
    *("system", "inst", "user", "assistant", "developer", "tool", "important"),
)
_LETTERS = frozenset("".join(_WORDS))
_LOOK_AHEAD = 24

# What a line is matched as: "[" for every opening bracket, small letters, "/", "0" for other letters and
# digits, " " for all else. Of a character that reads as several, all but the first are in capitals.
_BRACKET, _OTHER, _OTHERS, _BLANK = "[", "0", "Z", " "
# What is neither letter nor digit does not keep a reader from seeing the word.
_GAP = rf"[ \[]{{0,{_LOOK_AHEAD}}}+"
_SPELLED = (_GAP.join([word[0], *(f"[{c}{c.upper()}]" for c in word[1:])]) for word in _WORDS)
# Brackets before no word are matched, too, so that none of them is looked at twice.
_BRACKETS = re.compile(rf"\[[ \[]*+(?:(?=(/?{_GAP}(?:{'|'.join(_SPELLED)})))|)")
_READINGS_MAX = 200_000


class _Readings(dict[int, str]):
    """How characters are read, found out where each first occurs."""

    def __missing__(self, code: int) -> str:
        reading = _read(chr(code))
        if len(self) < _READINGS_MAX:
            self[code] = reading
        return reading


_READINGS = _Readings()


def fence(text: str, label: str, note: str = "") -> str:
    """Return the text between `[LABEL digest: note]` and `[END LABEL digest]`, each line of it quoted."""
    lines = [MARK + line for line in quiet_lines(text)]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGEST_CHARS]
    opening = f"[{label} {digest}: {note}]" if note else f"[{label} {digest}]"
    return "\n".join([opening, *lines, f"[END {label} {digest}]"])


def quiet_lines(text: str) -> list[str]:
    """Return the text's lines without control characters and without anything that reads as a marker."""
    return [quieten(_indent(line) + flatten(line)) for line in text.splitlines()]


def _indent(line: str) -> str:
    """Keep the indentation of code; tabs count four."""
    start = line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4)
    return start[:INDENT_MAX]


def quieten(line: str) -> str:
    """Put a parenthesis for each bracket that stands before a marker's word."""
    if line.isascii() and "[" not in line:
        return line
    parts = []
    done = 0
    for place in _marker_places(line):
        parts += [line[done:place], "("]
        done = place + 1
    return "".join([*parts, line[done:]])


def _marker_places(line: str) -> Iterator[int]:
    """Yield where brackets of any script stand before a marker's word, whatever hides between the two.

    One pass over the line.
    """
    reading = line.translate(_READINGS)
    places = _places(line, reading)
    for match in _BRACKETS.finditer(reading):
        if match[1] is None:
            continue
        last = places[match.end(1) - 1]
        for position in range(max(match.start(), match.end() - _LOOK_AHEAD), match.end()):
            if reading[position] == _BRACKET and last - places[position] <= _LOOK_AHEAD:
                yield places[position]


def _places(line: str, reading: str) -> Sequence[int]:
    """Return which character of the line each one of its reading is of."""
    if len(reading) == len(line):
        return range(len(line))
    return [place for place, character in enumerate(line) for _ in _READINGS[ord(character)]]


def _read(character: str) -> str:
    if _is_bracket(character):
        return _BRACKET
    plain = unicodedata.normalize("NFKD", character)
    letters = [letter.lower() for letter in plain if letter.isalnum() or letter == "/"]
    if not letters:
        return _BLANK
    first = letters[0] if letters[0] in _LETTERS or letters[0] == "/" else _OTHER
    return first + "".join(letter.upper() if letter in _LETTERS else _OTHERS for letter in letters[1:])


def _is_bracket(character: str) -> bool:
    if character.isascii():
        return character == "["
    # Any opening punctuation of another script looks like a bracket to somebody.
    return unicodedata.category(character) == "Ps"
