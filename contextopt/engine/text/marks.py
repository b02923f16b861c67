"""Marks before foreign text: every line that others wrote begins with `> `, so none can pose as ours.

A mark stands at the beginning of a text and after each character that a reader may take for the end of a
line: not only "\\n", but also a lone "\\r", vertical tab, form feed, U+001C to U+001E, U+0085, U+2028 and
U+2029. "\\r\\n" is one end. Nothing follows a last "\\n", so it has no mark. Marks are the only change:
`unmark` gives the text back, byte for byte. Limits count the text without its marks.
"""

import re

MARK = "> "
NO_NEWLINE = "\\ No newline at end of file\n"
"""Our own line after a file, as in a diff: without it a last line break could not be told from none."""

_END = "\n|\r(?!\n)|[\v\f\x1c-\x1e\x85\u2028\u2029]"
_LINE_END = re.compile(_END)
_MARKED = re.compile(rf"(\A|{_END})> ")


def mark(text: str) -> str:
    """Return the text with a mark before each of its lines."""
    if not text:
        return ""
    marked = MARK + _LINE_END.sub(rf"\g<0>{MARK}", text)
    return marked.removesuffix(MARK) if text.endswith("\n") else marked


def unmark(marked: str) -> str:
    """Return what `mark` was given."""
    return _MARKED.sub(r"\1", marked)


def marked_block(text: str) -> str:
    """Return the marked text as whole lines; nothing for an empty one."""
    marked = mark(text)
    return marked if marked.endswith("\n") or not marked else marked + "\n"


def marked_file(content: str) -> str:
    """Return a marked file as whole lines, with a line of ours where its own last line has no end."""
    return marked_block(content) + (NO_NEWLINE if content and not content.endswith("\n") else "")
