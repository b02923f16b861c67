"""The share of a question's evidence that a context shows, by the product's own rule.

If a set has no answers, the tokens of the evidence are counted instead, in two ways: of the lines as they are
in the context, and of what was said alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from benchmarks.retrieval.dialogues import Dialogue, Question, Turn
from benchmarks.service.recount import count_tokens
from contextopt.engine.evidence import Evidence, shows_evidence


@dataclass(frozen=True, slots=True)
class Context:
    """A context's text, and the line of each turn in it, by ID. Bare lines begin with a name and a colon."""

    text: str
    lines: Mapping[str, str]
    is_bare: bool = False

    def frame(self, turn: Turn, *, has_date: bool) -> str:
        return turn.bare_frame if self.is_bare else turn.frame(has_date=has_date)


@dataclass(frozen=True, slots=True)
class Measured:
    """The recall and precision of a context, 0 to 1 each, its tokens, and whether it has no turns.

    A context without turns has a precision of 0. `said` is the recall of what was said alone, without the
    beginnings of lines; it equals `recall` if the set has answers.
    """

    kind: str
    recall: float
    said: float
    precision: float
    tokens: int
    is_empty: bool


def measure_context(dialogue: Dialogue, question: Question, context: Context, budget: int) -> Measured:
    turns = {turn.id: turn for turn in dialogue.turns if turn.id in question.evidence}
    shown = {turn_id: line for turn_id, line in context.lines.items() if turn_id in turns}
    has_dates = dialogue.day is None
    frames = {turn_id: context.frame(turn, has_date=has_dates) for turn_id, turn in turns.items()}
    if question.answer:
        recall = said = _share_by_id(question, turns, frames, shown)
    else:
        lines = {turn_id: turn.line_after(frames[turn_id]) for turn_id, turn in turns.items()}
        recall = _share(lines, shown, budget)
        texts = {turn_id: line.removeprefix(frames[turn_id]).strip() for turn_id, line in shown.items()}
        said = _share({turn_id: turn.text for turn_id, turn in turns.items()}, texts, budget)
    precision = len(shown) / len(context.lines) if context.lines else 0.0
    return Measured(question.kind, recall, said, precision, count_tokens(context.text), not context.lines)


def _share_by_id(
    question: Question, turns: Mapping[str, Turn], frames: Mapping[str, str], shown: Mapping[str, str]
) -> float:
    counted = sum(
        shows_evidence(Evidence(turn.text, frames[turn.id]), shown.get(turn.id), question.answer)
        for turn in turns.values()
    )
    return counted / len(turns)


def _share(whole: Mapping[str, str], shown: Mapping[str, str], budget: int) -> float:
    """Return the share of the evidence's tokens that is shown, of those that fit the budget."""
    total = sum(map(_tokens, whole.values()))
    return min(1.0, sum(map(_tokens, shown.values())) / min(total, budget))


@cache
def _tokens(text: str) -> int:
    return count_tokens(text)
