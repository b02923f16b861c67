"""The result of an assembly, and its JSON form for the API and commands."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from contextopt.assemblies.candidates import Candidates, PreparedRequest
from contextopt.assemblies.models import FIXED_BUDGET, LAST_RECORDS, EntryJson
from contextopt.engine.placement.choice import Placed
from contextopt.engine.rendering import record_lines
from contextopt.engine.values import (
    INSUFFICIENT,
    Assembled,
    Certificate,
    ContextStats,
    ContextWarning,
    LedgerEntry,
    TokenAllocation,
    warnings_json,
)


@dataclass(frozen=True, slots=True)
class AssemblyResult:
    """One decision with its proof: what was asked, the candidates, and the context that the engine made of
    them. `id` is None until it is logged; a preview never is.
    """

    asked: PreparedRequest
    found: Candidates
    placed: Placed
    entries: tuple[EntryJson, ...]
    warnings: tuple[ContextWarning, ...]
    assembly_ms: float
    id: int | None = None

    @property
    def outcome(self) -> Assembled:
        return self.placed.outcome

    @property
    def text(self) -> str:
        return self.placed.outcome.text

    @property
    def allocation(self) -> TokenAllocation:
        return self.placed.outcome.allocation

    @property
    def certificate(self) -> Certificate:
        return self.placed.outcome.certificate

    @property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        return self.placed.outcome.ledger

    @property
    def stats(self) -> ContextStats:
        stats = replace(self.placed.outcome.stats, assembly_ms=self.assembly_ms)
        return stats if self.saving_counts else replace(stats, tokens_saved=None)

    @property
    def saving_counts(self) -> bool:
        """Whether saved tokens count: not if the context is empty or may lack the answer."""
        is_enough = INSUFFICIENT.isdisjoint(warning.code for warning in self.warnings)
        return is_enough and bool(self.placed.outcome.stats.records_included)

    @property
    def record_lines(self) -> dict[int, str]:
        """The line of each record in the text, by id."""
        return record_lines(self.text, self.outcome.order)

    def baselines(self) -> list[dict[str, Any]]:
        """Return the baselines with what they save. `saved` is None if the saving doesn't count."""
        outcome, counts = self.placed.outcome, self.saving_counts
        known = {LAST_RECORDS: outcome.stats.stage3_tokens, FIXED_BUDGET: outcome.fixed_tokens}
        return [
            {
                "name": name,
                "tokens": tokens,
                "saved": tokens - outcome.stats.tokens_used if counts else None,
            }
            for name, tokens in known.items()
            if tokens is not None
        ]

    @property
    def in_sight(self) -> list[int]:
        """Return the blocks that the caller should hold for the next prompt, this one included."""
        own = [self.id] if self.id is not None and self.placed.carries_on else []
        return [*(block.id for block in self.placed.kept), *own]

    def to_json(self) -> dict[str, Any]:
        """Return the response of the API and of `assemble --json`."""
        asked, placed, outcome, stats = self.asked, self.placed, self.placed.outcome, asdict(self.stats)
        counts = stats.pop("dropped_by_reason")
        return {
            "id": self.id,
            "space": asked.space.slug,
            "stage": asked.config.stage,
            "as_of": asked.as_of,
            "config_version": asked.space.config_version,
            "warnings": warnings_json(self.warnings),
            "searched": [asked.request.query.strip()[start:end] for start, end in self.found.passages],
            "overrides": asked.overrides,
            "text": outcome.text,
            "allocation": asdict(outcome.allocation),
            "stats": stats,
            "baselines": self.baselines(),
            "certificate": outcome.certificate.to_json(),
            "placement": {
                "name": placed.placement,
                "in_sight": self.in_sight,
                "rewritten": placed.is_rewritten,
                **placed.prompt_sizes.figures(),
            },
            "included": [
                {name: value for name, value in entry.items() if name not in OUTCOME}
                for entry in self.entries
                if entry["kept"]
            ],
            "dropped": [
                {name: value for name, value in entry.items() if name != "kept"}
                for entry in self.entries
                if not entry["kept"]
            ],
            "counts": {**counts, "outside_window": stats["outside_window"], "deleted": stats["deleted"]},
        }


# The fields of an entry that say what became of the record.
OUTCOME = ("kept", "reason", "duplicate_of")


def entries_json(ledger: Iterable[LedgerEntry]) -> tuple[EntryJson, ...]:
    return tuple([
        {
            "id": entry.id,
            "source": entry.source,
            "external_id": entry.external_id,
            "score": round(entry.score, 6),
            "parts": {name: round(value, 6) for name, value in entry.parts.items()},
            "tokens": entry.tokens,
            "pinned": entry.pinned,
            "kept": entry.kept,
            "reason": entry.reason,
            "duplicate_of": entry.duplicate_of,
        }
        for entry in ledger
    ])  # fmt: skip
