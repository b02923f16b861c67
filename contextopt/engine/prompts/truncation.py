"""Cut the ranking to the budget."""

from collections.abc import Sequence
from dataclasses import dataclass

from contextopt.engine.prompts.scoring import Scored

OVER_BUDGET = "over_budget"
OVER_RECORD_LIMIT = "over_record_limit"


@dataclass(frozen=True, slots=True)
class Cut:
    """A ranking in two parts, each best first: `kept` and `dropped`, which is so for one reason.

    Only an adaptive budget may drop a record that ranks above a kept one.
    """

    kept: tuple[Scored, ...]
    dropped: tuple[Scored, ...]
    reason: str = ""

    def without_last(self) -> "Cut":
        """Move the last kept record to the dropped ones, because the rendered text exceeded the budget."""
        return Cut(self.kept[:-1], self.kept[-1:] + self.dropped, OVER_BUDGET)


def truncate(ranked: Sequence[Scored], budget_tokens: int, max_records: int | None) -> Cut:
    """Take records in order while the next one fits, and stop at the first that does not.

    A smaller one further down is never taken instead, so no dropped record outranks a kept one. Pinned
    records count like all others. `budget_tokens` is the room for records only.
    """
    used = 0
    for position, scored in enumerate(ranked):
        if position == max_records:
            return _cut_at(ranked, position, OVER_RECORD_LIMIT)
        used += scored.record.tokens
        if used > budget_tokens:
            return _cut_at(ranked, position, OVER_BUDGET)
    return Cut(tuple(ranked), ())


def _cut_at(ranked: Sequence[Scored], position: int, reason: str) -> Cut:
    return Cut(tuple(ranked[:position]), tuple(ranked[position:]), reason)
