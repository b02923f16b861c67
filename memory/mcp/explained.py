"""The tool `explain`: what a logged context did with one record."""

from contextopt.assemblies.replay.expected import find_expected
from contextopt.assemblies.replay.explanation import Explanation, explain_record
from contextopt.engine.text.cleaning import flatten_to
from contextopt.lookups import find_one
from memory.mcp.answers import QUOTED, quote
from memory.mcp.callers import Caller
from memory.mcp.found import TITLE_CHARS


def explain_context(caller: Caller, assembly_id: int, expected: str) -> str:
    """Return the explanation in a few lines.

    Raises:
        NotFound: the caller reaches no such context or record.
        InvalidInput: the record is named ambiguously.
        Conflict: the context's ledger is no longer stored.
    """
    rows = caller.contexts().for_replay().filter(pk=assembly_id)
    assembly = find_one(rows, f"context {assembly_id}")
    record = find_expected(assembly, expected, caller.records(), field="record")
    return "\n".join(_lines(explain_record(assembly, record)))


def _lines(explained: Explanation) -> list[str]:
    lines = [f"{explained.step}: {explained.message}"]
    if explained.parts:
        parts = ", ".join(f"{name} {value:.2f}" for name, value in explained.parts.items())
        lines.append(f"Score parts, each 0 to 10: {parts}.")
    title = quote(flatten_to(explained.record.title, TITLE_CHARS))
    return [*lines, f"Record {explained.record.pk}. {QUOTED}", title]
