"""Quotes external text, by marks at its lines or by fences around it, so that a model reads it as data."""

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence

from contextopt.engine.text.cleaning import flatten

MARK = "> "
NO_NEWLINE = "\\ No newline at end of file\n"
"""Our own line after a file without a final line break, as in a diff."""

_LINE_END = re.compile("\n|\r(?!\n)|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_OTHER_END = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def mark(text: str) -> str:
    """Return the text with a mark before each of its lines."""
    if not text:
        return ""
    # `splitlines` ends lines at exactly these characters, and takes a tenth of the time of the pattern.
    marked = MARK + MARK.join(text.splitlines(keepends=True))
    return marked + MARK if text[-1] != "\n" and _LINE_END.match(text[-1]) else marked


def unmark(marked: str) -> str:
    """Return the text that was given to `mark`."""
    if _OTHER_END.search(marked):
        return "".join([line.removeprefix(MARK) for line in marked.splitlines(keepends=True)])
    # A megabyte of line breaks takes a hundredth of the time.
    return f"\n{marked}".replace(f"\n{MARK}", "\n")[1:]


def marked_block(text: str) -> str:
    """Return the marked text as whole lines, or nothing for an empty text."""
    marked = mark(text)
    return marked if marked.endswith("\n") or not marked else marked + "\n"


def marked_file(content: str) -> str:
    """Return a marked file as whole lines, with a line of ours if it has no final line break."""
    return marked_block(content) + (NO_NEWLINE if content and not content.endswith("\n") else "")


STRATEGY_HINT = "STRATEGY HINT"
EXTERNAL_DATA = "EXTERNAL DATA"
DIGEST_CHARS = 8
INDENT_MAX = 40

# The first words of all markers: the fences' own, those of retries and changed files, and those that models
# were trained to obey. None begins with another.
_WORDS = (
    *("end", "begin", "start", "strategy", "retry", "external", "data", "hint", "context", "memory", "task"),
    *("new", "deleted", "full", "truncated"),
    *("system", "inst", "user", "assistant", "developer", "tool", "important"),
)
_LETTERS = frozenset("".join(_WORDS))
_LOOK_AHEAD = 24

# The form in which a line is matched: "[" for every opening bracket, lower-case letters, "/", "0" for other
# letters and digits, " " for everything else. If a character stands for several, all but the first are in
# upper case.
_BRACKET, _OTHER, _OTHERS, _BLANK = "[", "0", "Z", " "
# Readers recognise a word in spite of characters between its letters that are neither letters nor digits.
_GAP = rf"[ \[]{{0,{_LOOK_AHEAD}}}+"
_SPELLED = (_GAP.join([word[0], *(f"[{c}{c.upper()}]" for c in word[1:])]) for word in _WORDS)
# Match brackets without a word too, so that none is examined twice.
_BRACKETS = re.compile(rf"\[[ \[]*+(?:(?=(/?{_GAP}(?:{'|'.join(_SPELLED)})))|)")
_READINGS_MAX = 200_000

# Every other line that begins so is marked, so a line that is not marked is ours.
_OUR_LINES = re.compile(
    rf"^(?:\[(?:END )?{EXTERNAL_DATA} [0-9a-f]{{{DIGEST_CHARS}}}(?:: [^\n]*)?\]\n|{re.escape(NO_NEWLINE)})",
    re.MULTILINE,
)


class _Readings(dict[int, str]):
    """The reading of each character, computed when it first occurs."""

    def __missing__(self, code: int) -> str:
        reading = _read(chr(code))
        if len(self) < _READINGS_MAX:
            self[code] = reading
        return reading


_READINGS = _Readings()


def fence(text: str, label: str, note: str = "") -> str:
    """Return the text between `[LABEL digest: note]` and `[END LABEL digest]`, with each line quoted."""
    lines = [MARK + line for line in quiet_lines(text)]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGEST_CHARS]
    opening = f"[{label} {digest}: {note}]" if note else f"[{label} {digest}]"
    return "\n".join([opening, *lines, f"[END {label} {digest}]"])


def without_marks(text: str) -> str:
    """Return a rendered text without what only we add to it: marks, fences, and notes on a file's end."""
    return unmark(_OUR_LINES.sub("", text))


def quiet_lines(text: str) -> list[str]:
    """Return the text's lines without control characters and without anything that reads as a marker."""
    return [quieten(_indent(line) + flatten(line)) for line in text.splitlines()]


def _indent(line: str) -> str:
    """Keep the indentation of code. A tab counts as four blanks."""
    start = line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4)
    return start[:INDENT_MAX]


def quieten(line: str) -> str:
    """Replace each bracket before a marker's word by a parenthesis."""
    if line.isascii() and "[" not in line:
        return line
    parts = []
    done = 0
    for place in _marker_places(line):
        parts += [line[done:place], "("]
        done = place + 1
    return "".join([*parts, line[done:]])


def _marker_places(line: str) -> Iterator[int]:
    """Yield the places of brackets of any script before a marker's word, whatever characters lie between.

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
    """Return, for each character of the line's reading, its position in the line."""
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
    # Any opening punctuation of another script can look like a bracket.
    return unicodedata.category(character) == "Ps"
