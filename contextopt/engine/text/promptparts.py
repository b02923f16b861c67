"""Split a prompt into its parts: prose, and what was pasted or wrapped around it.

A person writes a question and pastes a trace, code, data or a log. Their tools add blocks of their own. Each
part is told by its shape, never by a list of tools. All work is linear in the length of the prompt.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from contextopt.engine.text.linekinds import PartKind, is_asking, is_labelled, kind_of_line


class Span(NamedTuple):
    """A part of a text: its first character, and the character after its last."""

    start: int
    end: int


class Part(NamedTuple):
    """A part of a prompt: its kind, its first character, and the character after its last."""

    kind: PartKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class BlockPattern:
    """How what a tool adds is told: from one text to another, or a line that begins with the first one."""

    begin: str
    end: str = ""

    @classmethod
    def parse(cls, text: str) -> "BlockPattern":
        """Read a pattern such as `<<CONTEXT … CONTEXT>>` or `[editor]`."""
        begin, _, end = text.replace("...", "…").partition("…")
        return cls(begin.strip(), end.strip())

    @classmethod
    def parse_all(cls, text: str | None) -> "list[BlockPattern]":
        """Read the patterns of a space's settings, one a line."""
        return [cls.parse(line) for line in (text or "").splitlines() if line.strip()]


def split_prompt(text: str, patterns: Sequence[BlockPattern] = ()) -> list[Part]:
    """Return the parts of a prompt in their order, without the blank lines between them.

    A block whose name says that a person's words are in it, such as `<user_query>`, is read like the rest. So
    are all blocks if there is no prose outside of them. `patterns` are those that a team has added.
    """
    blocks = [*_fences(text), *_matched(text, patterns)]
    tagged = list(_tagged(text))
    parts = list(_parts(text, [*blocks, *(span for block in tagged for span in block.wrapped(text))]))
    if tagged and not any(part.kind == PartKind.PROSE for part in parts):
        opened = list(_parts(text, [*blocks, *(tag for block in tagged for tag in block.tags)]))
        if any(part.kind == PartKind.PROSE for part in opened):
            return opened
    return parts


def prose_of(text: str, patterns: Sequence[BlockPattern] = ()) -> str:
    """Return the prose of a prompt without what was pasted or wrapped around it; all of it without prose."""
    parts = [part for part in split_prompt(text, patterns) if part.kind == PartKind.PROSE]
    return "\n".join(text[part.start : part.end] for part in parts) or text


def is_wrapped(text: str, patterns: Sequence[BlockPattern] = ()) -> bool:
    """Return whether a text is only blocks that tools add. `patterns` are those that a team has added."""
    begin = text.lstrip()
    if begin[:1] not in _WRAPPING and not any(
        each.begin and begin.startswith(each.begin) for each in patterns
    ):
        return False
    wrapped = [span for block in _tagged(text) for span in block.wrapped(text)]
    at = 0
    for block in [
        *_outermost([*wrapped, *_matched(text, patterns)]),
        Part(PartKind.WRAPPED, len(text), len(text)),
    ]:
        if text[at : block.start].strip():
            return False
        at = block.end
    return True


# The characters that a block can begin with.
_WRAPPING = frozenset("<[-=*#~_+")
# The name of a tag, and whether it closes a block. An element without content does neither.
_TAG = re.compile(r"[<\[](/?)([A-Za-z][\w.:-]{0,60})(?:\s[^<>\[\]]{0,300})?[>\]]")
_BORDER = re.compile(r"^\W{2,10}\s?(BEGIN|END|START|STOP)\b[ _:-]*([^\n]{0,60}?)[^\w\n]{0,80}$", re.MULTILINE)
# A block with such a name holds what a person wrote.
_OF_PERSON = re.compile(
    r"(?:^|[_.:-]|(?-i:(?<=[a-z])(?=[A-Z])))(?:task|query|question|prompt|request|message|feedback|ask)$",
    re.IGNORECASE,
)
# Blanks before a tag that begins its line.
_INDENT_MAX = 20


@dataclass(frozen=True, slots=True)
class _Tagged:
    """A block with its opening and its closing tag."""

    name: str
    begin: Span
    end: Span

    @property
    def tags(self) -> list[Part]:
        return [Part(PartKind.WRAPPED, *self.begin), Part(PartKind.WRAPPED, *self.end)]

    def wrapped(self, text: str) -> list[Part]:
        """Return what a tool wrote: the whole block, or its tags alone if a person's words are in it.

        People write a tag and its closing tag inside a line, so such a block is part of the line.
        """
        if _OF_PERSON.search(self.name):
            return self.tags
        if (
            _begins_line(text, self.begin.start)
            or text.find("\n", self.begin.end, self.begin.end + _TAG_READ) >= 0
        ):
            return [Part(PartKind.WRAPPED, self.begin.start, self.end.end)]
        return []


# A block that does not begin a line is one if its line ends within so many characters.
_TAG_READ = 200


def _tagged(text: str) -> Iterator[_Tagged]:
    """Yield the blocks between a tag and its closing tag, and between two borders with BEGIN and END."""
    opened: dict[str, list[Span]] = {}
    for tag in _TAG.finditer(text):
        closes, name = tag.groups()
        if not closes:
            opened.setdefault(name, []).append(Span(*tag.span()))
        elif begun := opened.get(name):
            yield _Tagged(name, begun.pop(), Span(*tag.span()))
    borders: dict[str, Span] = {}
    for border in _BORDER.finditer(text):
        word, name = border.groups()
        if word in {"BEGIN", "START"}:
            borders[name] = Span(*border.span())
        elif name in borders:
            yield _Tagged("", borders.pop(name), Span(*border.span()))


def _begins_line(text: str, at: int) -> bool:
    """Return whether only blanks, or the end of another block, stand before a place in its line."""
    before = text[max(0, at - _INDENT_MAX) : at].rpartition("\n")[2].rstrip()
    return not before or before.endswith((">", "]"))


def _matched(text: str, patterns: Sequence[BlockPattern]) -> Iterator[Part]:
    for pattern in patterns:
        at = text.find(pattern.begin) if pattern.begin else -1
        while at >= 0:
            end = text.find(pattern.end or "\n", at + len(pattern.begin))
            if end < 0 and pattern.end:
                break
            end = len(text) if end < 0 else end + len(pattern.end)
            if pattern.end or _begins_line(text, at):
                yield Part(PartKind.WRAPPED, at, end)
            at = text.find(pattern.begin, end)


_FENCE = re.compile(r"^[ \t>]{0,12}(`{3,}|~{3,})[^\n`]*$", re.MULTILINE)


def _fences(text: str) -> Iterator[Part]:
    """Yield the fenced blocks. A fence without an end is a line, since its paste may have been cut."""
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        has_language = bool(fence[0].strip(" \t>`~\r"))
        if opened is None or has_language:
            opened = fence
        elif fence[1].startswith(opened[1]):
            yield Part(_kind_of_block(text, opened.end(), fence.start()), opened.start(), fence.end())
            opened = None


def _kind_of_block(text: str, start: int, end: int) -> PartKind:
    """Return what most lines of a block are; code if they are prose."""
    kinds = Counter(line.kind for line in _lines(text, start, end) if line.kind)
    kinds[PartKind.CODE] += kinds.pop(PartKind.PROSE, 0)
    return max(kinds, key=lambda kind: kinds[kind])


def _outermost(parts: Iterable[Part]) -> list[Part]:
    """Return the parts that are in no other, in their order. Those that overlap are joined."""
    joined: list[Part] = []
    for part in sorted(parts, key=lambda part: (part.start, -part.end)):
        if joined and part.start < joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, part.end))
        else:
            joined.append(part)
    return joined


def _parts(text: str, blocks: Iterable[Part]) -> Iterator[Part]:
    at = 0
    for block in _outermost(blocks):
        yield from _loose(text, at, block.start)
        yield block
        at = block.end
    yield from _loose(text, at, len(text))


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    end: int
    kind: PartKind | None


def _loose(text: str, start: int, end: int) -> Iterator[Part]:
    """Yield the parts of a text without blocks: runs of lines of one kind, blank lines between them apart."""
    lines = list(_lines(text, start, end))
    for is_blank, run in groupby(lines, lambda line: line.kind is None):
        if not is_blank:
            for kind, same in groupby(_settled(text, list(run)), lambda line: line.kind):
                members = list(same)
                assert kind is not None
                yield Part(kind, members[0].start, members[-1].end)


def _settled(text: str, run: list[_Line]) -> list[_Line]:
    """Return the lines of one paragraph. Prose inside of a paste belongs to it unless it asks."""
    run = _with_fields(text, run)
    pasted = [number for number, line in enumerate(run) if line.kind != PartKind.PROSE]
    if not pasted or len(pasted) == len(run):
        return run
    most = max(
        (PartKind.LOG, PartKind.DATA, PartKind.CODE),
        key=lambda kind: sum(line.kind == kind for line in run),
    )
    return [
        _Line(line.start, line.end, most)
        if line.kind == PartKind.PROSE
        and (pasted[0] < number < pasted[-1] or text[line.start] in "#*")
        and not is_asking(text[line.start : line.end])
        else line
        for number, line in enumerate(run)
    ]


def _with_fields(text: str, run: list[_Line]) -> list[_Line]:
    """Return the lines, those of several fields after another, such as an e-mail's head, as data."""
    is_field = [
        is_labelled(text[line.start : line.start + _LINE_READ]) and not is_asking(text[line.start : line.end])
        for line in run
    ]
    beside = zip([False, *is_field], is_field, [*is_field[1:], False], strict=False)
    return [
        _Line(line.start, line.end, PartKind.DATA) if own and (before or after) else line
        for line, (before, own, after) in zip(run, beside, strict=True)
    ]


# Only this much of a line shows what it is.
_LINE_READ = 1_000
_DIFF = re.compile(r"diff --git |@@ -\d|--- (?:a/|/dev/null)|\+\+\+ (?:b/|/dev/null)|Index: \S+$")
_IN_DIFF = re.compile(r"[ +\-@\\]|index |new file|deleted file|rename |similarity |old mode|new mode|$")


def _lines(text: str, start: int, end: int) -> Iterator[_Line]:
    is_diff = False
    at = start
    while at < end:
        found = text.find("\n", at, end)
        stop = end if found < 0 else found
        line = text[at : min(stop, at + _LINE_READ)].removesuffix("\r")
        is_diff = bool(_DIFF.match(line)) or (is_diff and bool(_IN_DIFF.match(line)))
        yield _Line(at, stop, PartKind.CODE if is_diff and line.strip() else kind_of_line(line))
        at = stop + 1
