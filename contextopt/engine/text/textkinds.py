"""The kind of a text as far as tokenizers differ on it: prose, code, data, or Chinese, Japanese and Korean.

Only the characters are looked at, in short parts, so that a context costs little. Large texts are sampled.
"""

import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum


class TextKind(StrEnum):
    """A kind of text with a factor of its own."""

    PROSE = "prose"
    CODE = "code"
    DATA = "data"
    CJK = "cjk"


PART_CHARS = 256
PARTS_MAX = 128
"""Longer texts are judged by this many of their parts, spread evenly."""
_WIDE_SHARE = 0.15
"""Least share of Chinese, Japanese and Korean characters, each of which has as many tokens as a word."""
_DATA_SHARE = 0.2
"""Least share of digits, quotes and separators in data. A line of prose with a date and tags has less."""
_CODE_SHARE = 0.04
"""Least share of the signs of code: brackets, operators and underscores."""

_WIDE = re.compile(r"[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]")
_OTHER_LETTERS = re.compile(r"[^\x00-\x7f]+")
_RUN = re.compile(r"([^\w])\1{16,}+")
_NO_SIGNS = str.maketrans("", "", string.ascii_letters + " \n\r.'!?-#[]")
_NO_DATA = str.maketrans("", "", string.digits + '":,|\t')


def kind_of(part: str) -> TextKind:
    """Return the kind of a short text, such as a line."""
    if not part.isascii():
        if len(_WIDE.findall(part)) > _WIDE_SHARE * len(part):
            return TextKind.CJK
        part = _OTHER_LETTERS.sub("x", part)
    signs = part.translate(_NO_SIGNS)
    code_signs = len(signs.translate(_NO_DATA))
    if len(signs) - code_signs > _DATA_SHARE * len(part):
        return TextKind.DATA
    return TextKind.CODE if code_signs > _CODE_SHARE * len(part) else TextKind.PROSE


def chars_in_runs(text: str) -> int:
    """Return the characters of blanks, dashes and other signs that are repeated more than sixteen times."""
    return sum(len(run[0]) for run in _RUN.finditer(text))


def kind_shares(text: str) -> Mapping[TextKind, float]:
    """Return the share of each kind in a text, by its bytes in UTF-8, the largest first.

    A text of blanks alone is prose.
    """
    sizes: Counter[TextKind] = Counter()
    for part in _parts(text):
        if not part.isspace():
            sizes[kind_of(part)] += len(part) if part.isascii() else len(part.encode(errors="replace"))
    total = sizes.total()
    return {kind: size / total for kind, size in sizes.most_common()} if total else {TextKind.PROSE: 1.0}


def _parts(text: str) -> Iterator[str]:
    """Yield the parts of a text, or some of them if it is long, the first and the last among them."""
    last = max(0, len(text) - PART_CHARS)
    if len(text) <= PARTS_MAX * PART_CHARS:
        starts = range(0, len(text), PART_CHARS)
    else:
        starts = range(0, last + 1, last // (PARTS_MAX - 1))
    for start in starts:
        yield text[start : start + PART_CHARS]
