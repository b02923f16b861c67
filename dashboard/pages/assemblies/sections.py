"""The ledger of an agent's context by section, as rows of a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from contextopt.assemblies.models import Assembly, AssemblyPayload
from dashboard.kit.charts.shapes import Bar, saving_bar
from dashboard.kit.diffs import HEADINGS
from dashboard.kit.formats import reason_words, whole
from dashboard.kit.inspector import LedgerRow
from memory.feedback.recordusage import answer_text, read_use

LABELS = HEADINGS | {
    "standing_documents": "Standing documents",
    "strategy_hint": "Strategy hint",
    "retry": "Retry",
}
SHOWN_AS = {"hunks": "in part", "signatures": "signatures only", "cut": "cut"}


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One thing of a section. `note` is why it was dropped, or how it is shown if it is not whole."""

    name: str
    is_kept: bool
    note: str
    tokens: str


@dataclass(frozen=True, slots=True)
class SectionRow:
    """One section. `why` counts the dropped by reason; `unnamed` are those that no item stands for."""

    label: str
    tokens: str
    bar: Bar
    kept: str
    dropped: str
    why: str
    items: tuple[ItemRow, ...]
    unnamed: int


def section_rows(sections: Sequence[Mapping[str, Any]], total: int) -> list[SectionRow]:
    """Describe each section of a text of `total` tokens."""
    return [_row(section, total) for section in sections]


def _row(section: Mapping[str, Any], total: int) -> SectionRow:
    items = tuple(
        ItemRow(
            item["id"], item["kept"], SHOWN_AS.get(item["reason"], reason_words(item["reason"])),
            whole(item["tokens"]),
        )
        for item in section["items"]
    )  # fmt: skip
    counts = section["counts"]
    return SectionRow(
        label=LABELS.get(section["name"], section["name"]),
        tokens=whole(section["tokens"]),
        bar=saving_bar(before=total or 1, after=section["tokens"]),
        kept=whole(section["kept"]),
        dropped=whole(section["dropped"]),
        why=", ".join(_counted(counts)),
        items=items,
        unnamed=section["dropped"] - sum(not item.is_kept for item in items),
    )


def _counted(counts: Mapping[str, int]) -> Iterator[str]:
    for reason, count in counts.items():
        yield reason_words(reason) if len(counts) == 1 else f"{whole(count)} {reason_words(reason)}"


WORDS_SHOWN = 8


def mark_used(rows: Sequence[LedgerRow], assembly: Assembly, payload: AssemblyPayload) -> list[LedgerRow]:
    """Return the rows with the words that each used record shares with the answer."""
    use = read_use(payload, answer_text(assembly))
    return [
        replace(row, shared=", ".join(use[row.id].words[:WORDS_SHOWN]))
        if row.id in use and use[row.id].is_used
        else row
        for row in rows
    ]
