"""Find the headings of a document, so that it can be shown in part like code."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from contextopt.engine.code.graph.values import Symbol

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
