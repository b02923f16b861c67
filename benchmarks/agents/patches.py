"""Applies diffs of files, to prove that no part of a change was lost."""

import re

from contextopt.engine.agents.deltas import ENDINGS, FULL_FILE, LINE_ENDINGS, REVERTED, ChangedFile, Content
from contextopt.engine.agents.linediff import NO_CHANGES, split_lines
from contextopt.engine.text.quoting import NO_NEWLINE
from contextopt.engine.validation import InvalidValue

_HUNK = re.compile(r"@@ -(\d{1,10})(?:,(\d{1,10}))? \+(\d{1,10})(?:,(\d{1,10}))? @@\n")

_ENDINGS_NOTE = re.compile(rf"{re.escape(LINE_ENDINGS)} .* became (\w+) in ")
_BY_NAME = {name: ending for ending, name in ENDINGS.items()}


def apply_diff(old: str, patch: str) -> str:
    """Return the result of applying `patch` to `old`.

    Raises:
        InvalidValue: the patch is cut, malformed, or made for another text.
    """
    if patch == NO_CHANGES:
        return old
    old_lines, patch_lines = split_lines(old), split_lines(patch)
    new_lines: list[str] = []
    at = position = 0
    while position < len(patch_lines):
        start, old_count, new_count = _read_header(patch_lines[position], position)
        if start < at:
            raise InvalidValue("patch", f"line {position + 1}: hunks overlap")
        new_lines += old_lines[at:start]
        removed, added, position = _read_hunk(patch_lines, position + 1)
        if (len(removed), len(added)) != (old_count, new_count):
            raise InvalidValue("patch", f"line {position}: the hunk is cut or malformed")
        if old_lines[start : start + old_count] != removed:
            raise InvalidValue("patch", f"line {position}: made for another text")
        new_lines += added
        at = start + old_count
    return "".join(new_lines + old_lines[at:])


def _read_header(line: str, position: int) -> tuple[int, int, int]:
    """Return the start of the hunk in the old text, and its lengths in the old and the new one."""
    match = _HUNK.fullmatch(line)
    if match is None:
        raise InvalidValue("patch", f"line {position + 1}: no hunk starts here; a cut diff cannot be applied")
    start, old_count, new_count = int(match[1]), int(match[2] or 1), int(match[4] or 1)
    return max(0, start - 1 if old_count else start), old_count, new_count


def _read_hunk(lines: list[str], position: int) -> tuple[list[str], list[str], int]:
    """Return the old lines of a hunk, the new ones, and where it ends."""
    removed: list[str] = []
    added: list[str] = []
    while position < len(lines) and lines[position][0] in " -+":
        sign, body = lines[position][0], lines[position][1:]
        position += 1
        if position < len(lines) and lines[position] == NO_NEWLINE:
            body = body.removesuffix("\n")
            position += 1
        if sign in " -":
            removed.append(body)
        if sign in " +":
            added.append(body)
    return removed, added, position


def apply_change(change: ChangedFile, base: Content | None) -> str | None:
    """Return the file described by an uncut text change; None for a deleted one.

    Raises:
        InvalidValue: the change is cut or binary, or was made for another content.
    """
    if change.is_truncated or change.kind == "binary":
        raise InvalidValue("diff", f"a {change.kind} change that is not whole cannot be applied")
    if change.kind == "deleted":
        return None
    body = change.diff.partition("\n")[2]
    if change.kind == "new":
        return body
    if not isinstance(base, str):
        raise InvalidValue("base", "must be the text that was last fully sent")
    patch = (body or NO_CHANGES) if change.kind == "renamed" else change.diff
    if patch == REVERTED:
        return base
    if endings := _ENDINGS_NOTE.match(patch):
        return re.sub(r"\r\n|\r|\n", _BY_NAME[endings[1]], base)
    heading, _, body = patch.partition("\n")
    return body if heading == FULL_FILE else apply_diff(base, patch)
