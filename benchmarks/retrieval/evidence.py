"""How much of a question's evidence a context shows, by the product's own rule.

Where a set gives no answers, the tokens of the evidence count instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from benchmarks.retrieval.dialogues import Dialogue, Question, Turn
from benchmarks.service.recount import count_tokens
from contextopt.engine.quality.evidence import Evidence, shows_evidence


@dataclass(frozen=True, slots=True)
class Context:
    """A context's text, and the line of each turn in it, by id."""

    text: str
    lines: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Measured:
    """One context's recall and precision, 0 to 1 each, its tokens, and whether it holds no turn.

    A context without turns has a precision of 0.
    """

    kind: str
    recall: float
    precision: float
    tokens: int
    is_empty: bool


def measure_context(dialogue: Dialogue, question: Question, context: Context, budget: int) -> Measured:
    turns = {turn.id: turn for turn in dialogue.turns if turn.id in question.evidence}
    shown = {turn_id: line for turn_id, line in context.lines.items() if turn_id in turns}
    recall = _share_by_id(question, turns, shown) if question.answer else _share(turns, shown, budget)
    precision = len(shown) / len(context.lines) if context.lines else 0.0
    return Measured(question.kind, recall, precision, count_tokens(context.text), not context.lines)


def _share_by_id(question: Question, turns: Mapping[str, Turn], shown: Mapping[str, str]) -> float:
    counted = sum(
        shows_evidence(Evidence(turn.text, turn.frame), shown.get(turn.id), question.answer)
        for turn in turns.values()
    )
    return counted / len(turns)


def _share(turns: Mapping[str, Turn], shown: Mapping[str, str], budget: int) -> float:
    """Return the tokens of the evidence's lines shown, of those that could fit into the budget."""
    total = sum(_tokens(turn.line) for turn in turns.values())
    return min(1.0, sum(map(_tokens, shown.values())) / min(total, budget))


@cache
def _tokens(line: str) -> int:
    return count_tokens(line)
