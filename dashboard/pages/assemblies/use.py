"""Marks the records that an answer probably used."""

from collections.abc import Sequence
from dataclasses import replace

from contextopt.models import Assembly, AssemblyPayload
from dashboard.kit.ledgers import LedgerRow
from memory.feedback.use import answer_text, read_use

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
