"""The changes in files that a receiver has not been told yet.

A receiver's memory maps a path to a `SentFile`: the content last sent in full, and whether a cut version has
been sent since. Only content sent in full updates it, so a later diff never builds on lines that the receiver
has not seen.
"""

from collections import Counter as Multiset
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from contextopt.engine.agents.cutdiffs import DiffRoom, Sought, cut_patch
from contextopt.engine.agents.linediff import Work, diff_lines
from contextopt.engine.text.cleaning import flatten
from contextopt.engine.text.quoting import marked_block, marked_file
from contextopt.engine.validation import MAX_INT, check_int
from contextopt.engine.wording import plural

type Content = str | bytes
type Kind = Literal["changed", "new", "deleted", "renamed", "binary", "reverted"]
type ReceiverFiles = Mapping[str, SentFile]
type CountText = Callable[[str], int]

NEW_FILE = "[NEW FILE]"
FULL_FILE = "[FULL FILE]"
DELETED = "[DELETED]"
BINARY_FILE = "[BINARY FILE]"
LINE_ENDINGS = "[LINE ENDINGS]"
REVERTED = "[REVERTED] to the version before the part that was sent"

MIN_RENAME_LIKENESS = 0.5
"""Share of equal lines from which a vanished file and a new file count as the same file."""
MAX_RENAME_PAIRS = 2_500
MAX_RENAME_LINES = 400_000
"""Total lines of all files above which renames are not detected by similarity."""
MAX_RENAME_WORK = 1_000_000
"""Maximum lines compared to find renames, about half a second. Renames beyond that are not found."""
MIN_CHARS = 100
"""Room for the note that says how much was left out."""
MAX_DIFF_LINES = 100_000
MAX_DIFF_CHARS = 1_000_000
_MIN_RENAME_LINES = 3


@dataclass(frozen=True, slots=True)
class DeltaLimits:
    """How many changed lines and characters of a file's delta are sent; None is no limit. A new file shows
    its first characters.
    """

    diff_lines: int | None = 20
    diff_characters: int | None = 500

    def __post_init__(self) -> None:
        if self.diff_lines is not None:
            check_int("diff_lines", self.diff_lines, 1, MAX_INT)
        if self.diff_characters is not None:
            check_int("diff_characters", self.diff_characters, MIN_CHARS, MAX_INT)


DEFAULT_LIMITS = DeltaLimits()
UNCUT = DeltaLimits(None, None)


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file as the receiver has it. `content` is None until it was sent in full."""

    content: Content | None
    is_partial: bool = False
    """A cut version has been sent after `content`."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """The change of one file as it is sent to the receiver."""

    path: str
    diff: str
    kind: Kind
    is_truncated: bool = False
    renamed_from: str = ""

    def render(self) -> str:
        """Return the change under its path. Lines of the file and of its diff are marked; our own are not."""
        heading, _, body = self.diff.partition("\n") if self.kind == "renamed" else ("", "", self.diff)
        renamed = f"{heading}\n" if heading else ""
        return f"### {flatten(self.path)}\n{renamed}{_render_body(body, self.is_truncated)}"


class _Comparison(NamedTuple):
    """How files are compared: how texts are counted, the limits, the error's words, and the work left."""

    count_text: CountText
    limits: DeltaLimits
    sought: Sought
    work: Work


class FileDeltas(NamedTuple):
    """The changes to send, by path, and the receiver's memory after that."""

    changed_files: tuple[ChangedFile, ...]
    receiver_files: dict[str, SentFile]


def fully_sent(files: Mapping[str, Content]) -> dict[str, SentFile]:
    """Return the memory of a receiver that was sent these files in full."""
    return {path: SentFile(content) for path, content in files.items()}


def build_delta(
    base: ReceiverFiles,
    current: Mapping[str, Content | None],
    count_text: CountText,
    limits: DeltaLimits = DEFAULT_LIMITS,
    *,
    error: str = "",
) -> FileDeltas:
    """Compare the receiver's memory with all current files.

    A file that is absent or None counts as deleted, or as renamed if a new file is similar. If a diff needs
    more tokens than the file, the file is sent instead. If it has to be cut, the hunks that name what the
    error names come first. Binary files are mentioned but never sent.
    """
    present = {path: content for path, content in current.items() if content is not None}
    renames = _find_renames(base, present)
    changed: list[ChangedFile] = []
    receiver = dict(base)
    comparison = _Comparison(count_text, limits, Sought.of(error), Work())
    for path in sorted({*base, *present} - set(renames.values())):
        source, content = renames.get(path, path), present.get(path)
        outcome = _compare(path, source, base.get(source), content, comparison)
        if outcome is not None:
            changed.append(outcome)
            remember(receiver, outcome, source, content)
    return FileDeltas(tuple(changed), receiver)


def is_binary(content: Content) -> bool:
    """Return whether a content is bytes, or a text with a NUL."""
    return isinstance(content, bytes) or "\0" in content


def _compare(
    path: str,
    source: str,
    known: SentFile | None,
    current: Content | None,
    by: _Comparison,
) -> ChangedFile | None:
    """Return the change of one file, or None if there is none."""
    if current is None:
        return ChangedFile(path, DELETED, "deleted")
    old = known.content if known else None
    if known is not None and old == current:
        note = REVERTED if known.is_partial else ""
        if source == path:
            return ChangedFile(path, note, "reverted") if note else None
        text = f"{_renamed_heading(source)}\n{note}" if note else _renamed_heading(source)
        return ChangedFile(path, text, "renamed", renamed_from=source)
    if is_binary(current):
        size = len(current if isinstance(current, bytes) else current.encode())
        return ChangedFile(path, f"{BINARY_FILE} {size:,} bytes", "binary")
    if not isinstance(current, str) or not isinstance(old, str) or is_binary(old):
        text, is_truncated = _new_file(str(current), by.limits)
        return ChangedFile(path, text, "new", is_truncated)
    text, is_truncated = _change(old, current, by)
    if source == path:
        return ChangedFile(path, text, "changed", is_truncated)
    return ChangedFile(path, f"{_renamed_heading(source)}\n{text}", "renamed", is_truncated, source)


def _renamed_heading(source: str) -> str:
    return f"[RENAMED from {flatten(source)}]"


def _change(old: str, current: str, by: _Comparison) -> tuple[str, bool]:
    """Return the diff, or the whole file if that is not larger, and whether it was cut.

    A change of line endings alone is one line, unless changes must be whole so that they can be applied.
    """
    if by.limits != UNCUT and (note := _line_endings_note(old, current)):
        return note, False
    limits = by.limits
    room = DiffRoom(limits.diff_lines, limits.diff_characters)
    patch, is_truncated = cut_patch(diff_lines(old, current, by.work), room, by.sought)
    if limits.diff_characters is None or len(current) <= limits.diff_characters:
        full = f"{FULL_FILE}\n{current}"
        if by.count_text(full) < by.count_text(patch):
            return full, False
    return patch, is_truncated


ENDINGS = {"\r\n": "CRLF", "\n": "LF", "\r": "CR"}


def _line_endings_note(old: str, current: str) -> str:
    """Return the line that stands for a change of line endings alone.

    It is "" if anything else has changed, or if the new endings differ from each other, as one line cannot
    say which is where.
    """
    if "\r" not in old and "\r" not in current:
        return ""
    if _with_feeds(old) != _with_feeds(current):
        return ""
    after = _endings_of(current)
    if len(after) != 1:
        return ""
    lines = plural(_with_feeds(current).count("\n"), "line")
    return f"{LINE_ENDINGS} {' and '.join(_endings_of(old))} became {after[0]} in {lines}, with the same text"


def _with_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _endings_of(text: str) -> list[str]:
    """Return the names of the line endings in a text, such as `["CRLF", "LF"]`."""
    pairs = text.count("\r\n")
    counts = {"\r\n": pairs, "\n": text.count("\n") - pairs, "\r": text.count("\r") - pairs}
    return [name for ending, name in ENDINGS.items() if counts[ending]]


def _new_file(content: str, limits: DeltaLimits) -> tuple[str, bool]:
    if limits.diff_characters is None or len(content) <= limits.diff_characters:
        return f"{NEW_FILE}\n{content}", False
    beginning = content[: limits.diff_characters]
    left_out = len(content) - limits.diff_characters
    break_ = "" if beginning.endswith("\n") else "\n"
    return f"{NEW_FILE}\n{beginning}{break_}[… {left_out:,} more characters left out]", True


def _render_body(body: str, is_truncated: bool) -> str:
    """Return a change as whole lines, with marks before the lines of the file."""
    if body.startswith((DELETED, BINARY_FILE, REVERTED, LINE_ENDINGS)):
        return f"{body}\n"
    heading, _, content = body.partition("\n")
    is_whole = heading in (NEW_FILE, FULL_FILE)
    ours, content = (f"{heading}\n", content) if is_whole else ("", body)
    if is_truncated:
        end = content.rfind("\n") + 1
        return f"{ours}{marked_block(content[:end])}{content[end:]}\n"
    return ours + (marked_file(content) if is_whole else marked_block(content))


def remember(receiver: dict[str, SentFile], sent: ChangedFile, source: str, current: Content | None) -> None:
    """Record in the receiver's memory a change that it was sent. `source` is the path before a rename."""
    if sent.is_truncated:
        # Keep the base, under the old path too, until the rename has arrived in full.
        receiver[source] = replace(receiver.get(source, SentFile(None)), is_partial=True)
        return
    receiver.pop(source, None)
    if current is not None:
        receiver[sent.path] = SentFile(current)


def _find_renames(base: ReceiverFiles, current: Mapping[str, Content]) -> dict[str, str]:
    """Return old paths by new ones: equal contents first, then the most similar texts."""
    gone = {
        path: known.content for path, known in sorted(base.items()) if path not in current and known.content
    }
    appeared = {path: content for path, content in sorted(current.items()) if path not in base and content}
    renames: dict[str, str] = {}
    paths_of: dict[Content, list[str]] = {}
    for path, content in gone.items():
        paths_of.setdefault(content, []).append(path)
    for path, content in appeared.items():
        if old_paths := paths_of.get(content):
            renames[path] = old_paths.pop(0)
    _match_likest(gone, appeared, renames)
    return renames


def _match_likest(
    gone: Mapping[str, Content | None], appeared: Mapping[str, Content], renames: dict[str, str]
) -> None:
    taken = set(renames.values())
    left = {path: content for path, content in gone.items() if path not in taken}
    unknown = {path: content for path, content in appeared.items() if path not in renames}
    if len(left) * len(unknown) > MAX_RENAME_PAIRS:
        return
    if sum(map(_count_breaks, [*left.values(), *unknown.values()])) > MAX_RENAME_LINES:
        return
    old = {path: _line_counts(content) for path, content in left.items()}
    new = {path: _line_counts(content) for path, content in unknown.items()}
    pairs = sorted(
        (-likeness, new_path, old_path)
        for new_path, old_path, shared in _count_shared(old, new)
        if (likeness := _likeness(old[old_path], new[new_path], shared)) >= MIN_RENAME_LIKENESS
    )
    for _, new_path, old_path in pairs:
        if new_path not in renames and old_path not in taken:
            renames[new_path] = old_path
            taken.add(old_path)


def _count_breaks(content: Content | None) -> int:
    return content.count("\n") if isinstance(content, str) else 0


def _line_counts(content: Content | None) -> Multiset[str]:
    """Count the lines with content. Blank lines and lone brackets are in every file."""
    if not isinstance(content, str) or is_binary(content):
        return Multiset()
    return Multiset(line for line in map(str.strip, content.split("\n")) if len(line) > 1)


def _count_shared(
    old: Mapping[str, Multiset[str]], new: Mapping[str, Multiset[str]]
) -> Iterator[tuple[str, str, int]]:
    """Yield new path, old path and the number of shared lines, within the work limit."""
    holders: dict[str, list[str]] = {}
    for path, lines in old.items():
        for line in lines:
            holders.setdefault(line, []).append(path)
    left = MAX_RENAME_WORK
    for new_path, lines in new.items():
        known = [line for line in lines if line in holders]
        work = sum(len(holders[line]) for line in known)
        if work > left:
            continue
        left -= work
        shared: Multiset[str] = Multiset()
        for line in known:
            for path in holders[line]:
                shared[path] += min(lines[line], old[path][line])
        for path, count in shared.items():
            yield new_path, path, count


def _likeness(old: Multiset[str], new: Multiset[str], shared: int) -> float:
    larger = max(old.total(), new.total())
    return shared / larger if larger >= _MIN_RENAME_LINES else 0.0
