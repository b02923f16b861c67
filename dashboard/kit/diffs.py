"""Compares the full context with what an agent was sent: by field, by line and by file. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from contextopt.engine.agents.contexts import FIELDS
from contextopt.engine.agents.trims import Trimmed
from dashboard.kit.charts.shapes import Bar, saving_bar
from dashboard.kit.formats import whole

# Longer texts make the page slow to draw; the raw text is complete.
SHOWN_CHARS = 60_000

# The headings of the rendered fields, in the order of the text.
HEADINGS = {
    "package_manifest": "Package manifest",
    "tree": "Tree",
    "tree_paths": "Paths",
    "files": "Files",
    "memories": "Memories",
    "docs": "Docs",
    "tools": "Tools",
}
# The fields in the order in which the ledger counts their characters. Paths are not counted.
COUNTED = ("tree", "package_manifest", "files", "memories", "docs", "tools")


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field of the context; `state` is "kept", "cut", "dropped" or "" if nothing was given."""

    label: str
    before: str
    after: str
    bar: Bar | None
    state: str
    reason: str


def field_rows(
    ledger: Mapping[str, Any], config: Mapping[str, Any], before: str, after: str
) -> list[FieldRow]:
    """Describe what happened to each field; a phase without a profile has an empty config."""
    counts = ledger["chars"]
    chars_before = dict(zip(COUNTED, counts["before"], strict=True))
    chars_after = dict(zip(COUNTED, counts["after"] or [0] * len(COUNTED), strict=True))
    cuts = {cut["field"]: Trimmed(**cut) for cut in ledger.get("trimmed", ())}
    kept = config.get("fields", FIELDS)
    given, sent = split_sections(before), split_sections(after)
    rows = []
    for name, label in HEADINGS.items():
        state, reason = _outcome(name, kept, name in given, name in sent, cuts.get(name))
        was, now = chars_before.get(name), chars_after.get(name)
        bar = saving_bar(before=was, after=now or 0) if was else None
        rows.append(FieldRow(label, whole(was), whole(now), bar, state, reason))
    return rows


def _outcome(
    name: str, kept: list[str], is_given: bool, is_sent: bool, cut: Trimmed | None
) -> tuple[str, str]:
    if not is_given:
        return "", "empty"
    if name not in kept:
        return "dropped", "not used in this phase"
    if cut is None:
        return "kept", ""
    words = str(cut).partition(": ")[2]
    return ("cut" if is_sent else "dropped"), f"over the budget: {words}"


def split_sections(text: str) -> dict[str, str]:
    """Split a rendered context at its headings, which have a fixed order; absent fields have no heading.

    A line of the contents may look like a heading. Then only the marks beside the text are wrong.
    """
    starts: list[tuple[int, str]] = []
    at = 0
    for name, heading in HEADINGS.items():
        line = f"## {heading}\n"
        found = 0 if at == 0 and text.startswith(line) else text.find(f"\n\n{line}", at)
        if found < 0:
            continue
        start = found if found == 0 else found + 2
        starts.append((start, name))
        at = start + len(line) - 1
    return {name: text[start:end] for (start, name), (end, _) in pairwise([*starts, (len(text), "")])}


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive lines, with their signs, that share a state: "kept", "gone", "added" or "note"."""

    state: str
    text: str


@dataclass(frozen=True, slots=True)
class Marked:
    """A text in runs, and the number of its characters that are not shown."""

    runs: tuple[Run, ...]
    left_out: int = 0


def mark_left_out(before: str, after: str) -> Marked:
    """Mark the lines of the full context that were not sent. Fields are cut at their end."""
    sent = split_sections(after)
    shown = before[:SHOWN_CHARS]
    marks: list[tuple[str, str]] = []
    for name, section in split_sections(shown).items():
        marks += _mark_section(section, sent.get(name, ""))
    return Marked(_runs(marks), len(before) - len(shown))


def _mark_section(section: str, sent: str) -> Iterator[tuple[str, str]]:
    others = sent.split("\n")
    is_same = bool(sent)
    for place, line in enumerate(section.removesuffix("\n").split("\n")):
        is_same = is_same and place < len(others) and others[place] == line
        yield ("kept", f"  {line}\n") if is_same else ("gone", f"− {line}\n")


def unmarked(text: str) -> Marked:
    shown = text[:SHOWN_CHARS]
    return Marked((Run("", shown),) if shown else (), len(text) - len(shown))


# The state of a diff line by its first character.
_SIGNS = {"+": "added", "-": "gone", "@": "note", "[": "note", "\\": "note"}


def colour_diff(diff: str, kind: str) -> tuple[Run, ...]:
    """Return a file's delta in runs. Contents sent in full have no signs and are complete if new."""
    heading, _, body = diff.partition("\n")
    is_whole = kind == "new" or heading == "[FULL FILE]"
    if not is_whole:
        return _runs(
            [(_SIGNS.get(line[:1], ""), f"{line}\n") for line in diff.removesuffix("\n").split("\n")]
        )
    lines = body.removesuffix("\n").split("\n") if body else []
    state = "added" if kind == "new" else ""
    sign = "+" if kind == "new" else " "
    marks = [
        ("note", f"{line}\n")
        if line.startswith("[… ") and place == len(lines) - 1
        else (state, f"{sign}{line}\n")
        for place, line in enumerate(lines)
    ]
    return _runs([("note", f"{heading}\n"), *marks])


def _runs(marks: list[tuple[str, str]]) -> tuple[Run, ...]:
    return tuple(
        Run(state, "".join(text for _, text in some))
        for state, some in groupby(marks, key=lambda mark: mark[0])
    )
