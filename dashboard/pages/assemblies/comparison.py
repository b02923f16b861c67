"""Compares two assemblies: figures, text line by line, and the outcome of each candidate. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from contextopt.assemblies.figures import BY_NAME
from contextopt.assemblies.models import Assembly, EntryJson
from contextopt.engine.agents.linediff import diff_text
from dashboard.kit.diffs import SHOWN_CHARS, Run, colour_diff
from dashboard.kit.formats import figure_words, reason_words
from dashboard.kit.inspector import Titled, title_of

NOT_NAMED = "not listed"
COMPARED = tuple(
    BY_NAME[name]
    for name in (
        "shared_prefix_tokens", "records_included", "compression_ratio", "tokens_after", "utilisation",
        "tokens_saved", "truncated", "assembly_ms",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FigureRow:
    label: str
    before: str
    after: str

    @property
    def differs(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """A candidate whose outcome differs; its title is the current one."""

    id: int
    title: str
    space_slug: str
    before: str
    after: str
    sign: str


@dataclass(frozen=True, slots=True)
class LogComparison:
    """The differences; `alike` counts the candidates with the same outcome."""

    figures: tuple[FigureRow, ...]
    is_same_text: bool
    runs: tuple[Run, ...]
    is_cut: bool
    candidates: tuple[CandidateRow, ...]
    alike: int


def entries_of(assembly: Assembly) -> list[EntryJson]:
    payload = assembly.stored_payload
    return payload.entries if payload else []


def compare_assemblies(before: Assembly, after: Assembly, titles: Mapping[int, Titled]) -> LogComparison:
    was, now = (
        {entry["id"]: (rank, entry) for rank, entry in enumerate(entries_of(assembly), start=1)}
        for assembly in (before, after)
    )
    both = sorted({*was, *now}, key=lambda id: (_rank(now, id), _rank(was, id), id))
    rows = tuple(_candidate(id, was.get(id), now.get(id), titles) for id in both)
    different = tuple(row for row in rows if row.before != row.after)
    payloads = (before.stored_payload, after.stored_payload)
    texts = [payload.text if payload else "" for payload in payloads]
    runs = (
        () if texts[0] == texts[1] else colour_diff(diff_text(*(t[:SHOWN_CHARS] for t in texts)), "changed")
    )
    is_cut = max(map(len, texts)) > SHOWN_CHARS
    is_same = before.sha256 == after.sha256
    shown_after = _figures(after)
    figures = tuple(FigureRow(label, value, shown_after[label]) for label, value in _figures(before).items())
    return LogComparison(figures, is_same, runs, is_cut, different, len(rows) - len(different))


def _figures(row: Assembly) -> dict[str, str]:
    return {
        "Space or kind": row.space.name if row.space else str(row.get_kind_display()),
        "Phase": row.phase or "–",
        "Stage": str(row.stage or "–"),
        "Config": f"v{row.config.version}" if row.config else "–",
        "Model": row.model or "–",
        "Conversation": row.conversation or "–",
        "Placement": row.get_placement_display() or "–",
        **{figure.label: figure_words(figure, row) for figure in COMPARED},
        "SHA-256": f"{row.sha256[:16]}…",
    }


def _rank(entries: Mapping[int, tuple[int, EntryJson]], id: int) -> int:
    return entries[id][0] if id in entries else 2**31


def _candidate(
    id: int,
    was: tuple[int, EntryJson] | None,
    now: tuple[int, EntryJson] | None,
    titles: Mapping[int, Titled],
) -> CandidateRow:
    titled = title_of(id, titles)
    was_kept, is_kept = (bool(found and found[1]["kept"]) for found in (was, now))
    sign = "" if was_kept == is_kept else "added" if is_kept else "gone"
    return CandidateRow(id, titled.title, titled.space_slug, _fate(was), _fate(now), sign)


def _fate(found: tuple[int, EntryJson] | None) -> str:
    if found is None:
        return NOT_NAMED
    rank, entry = found
    return f"kept, rank {rank}" if entry["kept"] else f"dropped, {reason_words(entry['reason'])}"


# Longer runs of equal lines are folded, and this many of them stay visible on each side.
FOLDED_FROM, CONTEXT_LINES = 8, 2


@dataclass(frozen=True, slots=True)
class Line:
    """A line of both texts, or of one of them; `folded` equal lines are left out here if it is not 0."""

    before: str | None
    after: str | None
    folded: int = 0

    @property
    def state(self) -> str:
        if self.folded:
            return "note"
        return "kept" if self.before == self.after else "gone" if self.after is None else "added"


def align(before: str, after: str) -> tuple[Line, ...]:
    """Return the lines of both texts in order, each opposite its equal."""
    was, now = (text[:SHOWN_CHARS].removesuffix("\n").split("\n") for text in (before, after))
    matcher = SequenceMatcher(None, was, now, autojunk=False)
    lines: list[Line] = []
    for tag, start, end, start_after, end_after in matcher.get_opcodes():
        if tag == "equal":
            lines += _fold(was[start:end])
        else:
            lines += [Line(line, None) for line in was[start:end]]
            lines += [Line(None, line) for line in now[start_after:end_after]]
    return tuple(lines)


def _fold(lines: Sequence[str]) -> Iterator[Line]:
    if len(lines) < FOLDED_FROM:
        yield from (Line(line, line) for line in lines)
        return
    yield from (Line(line, line) for line in lines[:CONTEXT_LINES])
    yield Line(None, None, len(lines) - 2 * CONTEXT_LINES)
    yield from (Line(line, line) for line in lines[-CONTEXT_LINES:])
