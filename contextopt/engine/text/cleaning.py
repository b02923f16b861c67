r"""Flatten text to one line and cut it, never inside a grapheme.

Lengths are in code points. Flattening

- turns every run of white space, line breaks and separators (\r \n \t \v \f \x1c to \x1f
\x85 U+2028 U+2029 and the blanks of Unicode) into one space, and drops it at both ends;
- drops other control characters, including NUL, and the byte order mark;
- drops bidirectional embeddings, overrides and isolates (U+202A to U+202E, U+2066 to U+2069), which
reorder the line that a reviewer reads; the marks LRM, RLM and ALM stay, since Arabic and Hebrew need them;
- drops tag characters (U+E0000 to U+E007F) outside a flag, because they carry invisible text;
- replaces lone surrogates by U+FFFD, since UTF-8 cannot encode them.
"""

import unicodedata

import regex

ELLIPSIS = "…"
# Soft hyphen, zero-width blank, non-joiner and joiner, word joiner, byte order mark.
_UNSEEN = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))

_UNWANTED = regex.compile(
    "(\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f)"
    "|[\\x00-\\x1f\\x7f-\\x9f\ufeff\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
_SURROGATE = regex.compile("[\ud800-\udfff]")
_GRAPHEME = regex.compile(r"\X")
_OTHER_BLANK = regex.compile(r"[^\S ]")
_WIDE_GAP = regex.compile(" {3,}")

# Multiples of a limit: the characters read first, and the most that are read. Text beyond the second counts
# as cut off, so summarising a megabyte of notes costs no more than a page.
_FIRST_LOOK = 3
_LAST_LOOK = 64

# No character below this forms a grapheme with its neighbour, so there is a boundary between any two of them.
_FIRST_JOINING = "\u0300"


def normal_form(text: str) -> str:
    """Return the form in which texts are compared: NFKC, without characters that nobody sees."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text).translate(_UNSEEN)


def flatten(text: str) -> str:
    """Return the text as one printable line."""
    flat = " ".join(text.split())
    if flat.isprintable():
        return flat
    clean = _SURROGATE.sub("\ufffd", _UNWANTED.sub(r"\1", flat))
    # A dropped character may have stood between two spaces, or at an end.
    return " ".join(clean.split())


def unbroken(text: str) -> str:
    """Return the text as one printable line, keeping its single and double blanks.

    For texts that are quoted whole: only line breaks, wide gaps and unprintable characters change.
    """
    line = " ".join(filter(str.strip, text.splitlines()))
    if not line.isprintable():
        line = _SURROGATE.sub("\ufffd", _UNWANTED.sub(r"\1", _OTHER_BLANK.sub(" ", line)))
    return _WIDE_GAP.sub(" ", line)


def flatten_to(text: str, limit: int) -> str:
    """Return the text as one line of at most `limit` characters. A cut ends in "…", which counts."""
    flat = flatten(text[: _FIRST_LOOK * limit])
    if len(text) <= _FIRST_LOOK * limit or len(flat) > limit:
        return cut(flat, limit)
    text = text.lstrip()
    look = _LAST_LOOK * limit
    flat = flatten(text[:look])
    if len(flat) > limit or not text[look:].strip():
        return cut(flat, limit)
    # The next characters might belong to the last grapheme, so drop it.
    return flat[: grapheme_boundary(flat, len(flat) - 1)].rstrip() + ELLIPSIS


def cut(flat: str, limit: int) -> str:
    """Return at most `limit` characters of one line. A cut ends in "…", which counts.

    If the first grapheme is longer than the limit, only "…" is left.
    """
    if len(flat) <= limit:
        return flat
    return flat[: grapheme_boundary(flat, limit - 1)].rstrip() + ELLIPSIS


def grapheme_boundary(text: str, position: int) -> int:
    """Return the last boundary between graphemes at or before the position."""
    if position <= 0:
        return 0
    if position >= len(text):
        return len(text)
    if text[position - 1] < _FIRST_JOINING and text[position] < _FIRST_JOINING:
        return position
    boundary = 0
    for grapheme in _GRAPHEME.finditer(text, 0, position + 1):
        if grapheme.end() > position:
            break
        boundary = grapheme.end()
    return boundary
