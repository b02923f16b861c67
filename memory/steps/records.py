"""The records of a space for a step, chosen as for a question."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from contextopt.assemblies.assemble import DecidedContext, decide_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.ledgers import EntryJson
from contextopt.engine.agents.contexts import WholeText
from contextopt.engine.agents.steps import LeftOut
from contextopt.engine.prompts.config import MAX_PART_TOKENS
from contextopt.engine.prompts.truncation import OVER_BUDGET
from contextopt.inputs import QUERY_MAX
from memory.steps.found import Found


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """A space's records as items in the order of the text. The first item also has the space's header."""

    found: Found
    decision: DecidedContext

    def entries(self, sent: Collection[str]) -> list[EntryJson]:
        """Return the ledger of the records, of which those named in `sent` are in the step's text."""
        return [
            entry
            if not entry["kept"] or record_name(entry["id"]) in sent
            else {**entry, "kept": False, "reason": OVER_BUDGET}
            for entry in self.decision.result.entries
        ]


def record_name(record_id: int) -> str:
    return f"record {record_id}"


def find_records(
    *, team_id: int, space: str, task: str, tokens: int, as_of: datetime | None, encoding: str, actor: str
) -> FoundRecords:
    """Choose the records of the space for the task within a number of tokens.

    Raises:
        NotFound: the team has no such space.
        EngineError: the space's settings leave no room.
    """
    request = AssemblyIn(
        space=space,
        query=task[:QUERY_MAX],
        context_tokens=min(tokens, MAX_PART_TOKENS),
        as_of=as_of,
        encoding=encoding,
    )
    decision = decide_space(team_id=team_id, request=request, actor=actor)
    result = decision.result
    order = result.outcome.order
    lines = result.text.splitlines(keepends=True)
    split = len(lines) - len(order)
    items = [WholeText("".join(lines[: split + 1])), *lines[split + 1 :]] if order else []
    dropped = [(record_name(entry["id"]), entry["reason"]) for entry in result.entries if not entry["kept"]]
    found = Found(
        items=tuple(items),
        names=tuple(map(record_name, order)),
        left_out=LeftOut(tuple(dropped), result.stats.dropped_by_reason),
    )
    return FoundRecords(found, decision)
