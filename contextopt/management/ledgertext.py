"""Describes an assembly as text, for a terminal."""

from collections.abc import Sequence

from contextopt.assemblies.results import AssemblyResult
from contextopt.engine.settings import name_in_request
from contextopt.engine.text.cleaning import cut
from contextopt.engine.values import ContextWarning, LedgerEntry
from contextopt.management.base import more_in_json

DROPPED_SHOWN = 10
NAME_WIDTH = 34
# Heading and number format of the column for each part of a score.
PARTS = {
    "recency": ("recency", ".2f"),
    "frequency": ("frequency", ".0f"),
    "semantic": ("meaning", ".2f"),
    "lexical": ("words", ".2f"),
    "neighbour": ("neighbours", ".2f"),
    "date": ("date", ".0f"),
    "who": ("person", ".0f"),
    "topic": ("topic", ".2f"),
}
# Few questions name a date or a person, and few are about long conversations.
RARE_PARTS = frozenset({"date", "who", "topic"})


def describe_result(result: AssemblyResult) -> str:
    """Return the text itself, then how the tokens are divided, and what was kept and dropped."""
    asked, stats, certificate = result.asked, result.stats, result.certificate
    records = (
        f"Records: {stats.records_included:,} kept, {stats.records_dropped:,} dropped, "
        f"{stats.outside_window:,} outside the window, {stats.deleted:,} deleted"
    )
    moment = f"Stage {asked.config.stage} as of {asked.as_of:%Y-%m-%d %H:%M:%S %Z}"
    logged = "preview, not logged" if result.id is None else f"logged as assembly {result.id}"
    parts = [
        result.text.rstrip("\n"),
        "",
        f"{_size(result)}, {_saving(result)}",
        _allocation_line(result),
        *(
            [f"Blocks to keep for the next prompt: --in-sight {','.join(map(str, result.in_sight))}"]
            if result.in_sight
            else []
        ),
        records,
        f"SHA-256 {certificate.sha256}",
        f"{moment}, config v{asked.space.config_version}, {result.assembly_ms:.1f} ms, {logged}",
    ]
    parts += [_warning_line(warning) for warning in result.warnings]
    if result.ledger:
        parts += ["", *_ledger_table(result.ledger)]
    return "\n".join(parts)


def _size(result: AssemblyResult) -> str:
    certificate, available = result.certificate, result.stats.tokens_available
    unit = certificate.encoding if certificate.factor is None else certificate.statement
    if certificate.carried_tokens:
        parts = f"{certificate.tokens_at_most:,} new and {certificate.carried_tokens:,} in sight"
        return f"{parts}, together {certificate.total_tokens:,} of {available:,} tokens ({unit})"
    return f"{certificate.tokens_at_most:,} of {available:,} tokens ({unit})"


def _warning_line(warning: ContextWarning) -> str:
    if warning.remedy is None:
        return f"Warning: {warning.message}"
    option = name_in_request(warning.remedy.setting).replace("_", "-")
    return f"Warning: {warning.message} {warning.remedy.label}: --{option} {warning.remedy.value}"


def _saving(result: AssemblyResult) -> str:
    saved = result.stats.tokens_saved
    if saved is None:
        return "not counted as a saving" if result.stats.stage3_tokens else "nothing to compare with"
    return f"{abs(saved):,} {'fewer' if saved >= 0 else 'more'} than the last 10 records"


def _allocation_line(result: AssemblyResult) -> str:
    parts = result.allocation
    return (
        f"Prompt of {parts.total:,}: system {parts.system:,}, history {parts.history:,}, "
        f"context {parts.context:,}, response {parts.response:,}"
    )


def _ledger_table(ledger: Sequence[LedgerEntry]) -> list[str]:
    kept = [entry for entry in ledger if entry.kept]
    dropped = [entry for entry in ledger if not entry.kept]
    # All entries of a ledger have the same parts; in stage 3 they have none.
    parts = [
        name
        for name in PARTS
        if name in ledger[0].parts and (name not in RARE_PARTS or any(entry.parts[name] for entry in ledger))
    ]
    rows = [("", "record", "score", *(PARTS[name][0] for name in parts), "tokens", "why")]
    rows += [_ledger_row(entry, parts) for entry in [*kept, *dropped[:DROPPED_SHOWN]]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.rjust(width) if 2 <= column < len(row) - 1 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return [*lines, *more_in_json(len(dropped) - DROPPED_SHOWN)]


def _ledger_row(entry: LedgerEntry, parts: Sequence[str]) -> tuple[str, ...]:
    name = f"{entry.id} {entry.external_id}".strip()
    return (
        "kept" if entry.kept else "dropped",
        cut(name, NAME_WIDTH),
        f"{entry.score:.3f}",
        *(format(entry.parts[part], PARTS[part][1]) for part in parts),
        f"{entry.tokens:,}",
        _why(entry),
    )


def _why(entry: LedgerEntry) -> str:
    if entry.duplicate_of is not None:
        return f"repeats {entry.duplicate_of}"
    return "pinned" if entry.pinned and entry.kept else entry.reason.replace("_", " ")
