"""How much of a question's evidence a context shows.

A turn counts if the context shows at least half of the answer's content words that the turn holds, so cutting
every turn short gains nothing. Where a set gives no answers, the tokens of the evidence count instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from benchmarks.retrieval.dialogues import Dialogue, Question, Turn
from benchmarks.service.recount import count_tokens
from contextopt.engine.text.lexical import distinct_terms

LEAST_SHOWN = 0.5
_STOP_WORDS = """
a about after all also an and any are as at be because been before being both but by can could did do does
doing down during each few for from further had has have having he her here hers him his how i if in into is
it its just me more most my no nor not of off on once only or other our out over own same she should so some
such than that the their them then there these they this those through to too under until up very was we were
what when where which while who whom why will with would you your
"""


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
    wanted = content_words(question.answer)
    counted = sum(
        _shows(wanted & content_words(turns[turn_id].text), line.removeprefix(turns[turn_id].frame))
        for turn_id, line in shown.items()
    )
    return counted / len(turns)


def _shows(held: frozenset[str], text: str) -> bool:
    return len(held & content_words(text)) >= LEAST_SHOWN * len(held)


def _share(turns: Mapping[str, Turn], shown: Mapping[str, str], budget: int) -> float:
    """Return the tokens of the evidence's lines shown, of those that could fit into the budget."""
    total = sum(_tokens(turn.line) for turn in turns.values())
    return min(1.0, sum(map(_tokens, shown.values())) / min(total, budget))


@cache
def _tokens(line: str) -> int:
    return count_tokens(line)


@cache
def content_words(text: str) -> frozenset[str]:
    """Return the stems of a text's words without stop words."""
    return frozenset(distinct_terms(text)) - _stop_words()


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(distinct_terms(_STOP_WORDS))
