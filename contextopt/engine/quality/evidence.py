"""Whether a context shows the evidence that answers a question.

A record counts only if the context shows at least half of the answer's content words that its notes hold, so
cutting every record short gains nothing. Titles are always shown, so they don't count. Without an answer, a
record counts if it is shown at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from contextopt.engine.prompts.rendering import question_start
from contextopt.engine.text.cleaning import unbroken
from contextopt.engine.text.lexical import distinct_terms
from contextopt.engine.text.tokens import Tokenizer

LEAST_SHOWN = 0.5
"""The share of the answer's words in a record's notes that its line must show."""
_STOP_WORDS = """
a about after all also an and any are as at be because been before being both but by can could did do does
doing down during each few for from further had has have having he her here hers him his how i if in into is
it its just me more most my no nor not of off on once only or other our out over own same she should so some
such than that the their them then there these they this those through to too under until up very was we were
what when where which while who whom why will with would you your
"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A record that answers a question. `frame` is the beginning of its line, before the notes."""

    notes: str
    frame: str


def line_frame(title: str, type: str, date: datetime, tags: Iterable[str], *, has_date: bool = True) -> str:
    """Return the beginning of a record's line, up to where its notes begin."""
    return f"{question_start(title, type, date, tags, has_date=has_date)}: "


def shows_evidence(evidence: Evidence, line: str | None, answer: str) -> bool:
    """Return whether a context shows a record well enough; `line` is its line there, None if it has none."""
    if line is None:
        return False
    held = content_words(answer) & content_words(evidence.notes)
    shown = content_words(line.removeprefix(evidence.frame))
    return len(held & shown) >= LEAST_SHOWN * len(held)


def share_shown(
    evidence: Mapping[int, Evidence], lines: Mapping[int, str], budget_tokens: int, tokenizer: Tokenizer
) -> float:
    """Return the tokens of the evidence that a context shows, of those that could fit into the budget.

    `lines` has the context's line of each record in it.
    """
    whole = sum(tokenizer.count(f"{each.frame}{unbroken(each.notes)}\n") for each in evidence.values())
    shown = sum(tokenizer.count(f"{lines[key].rstrip()}\n") for key in evidence if key in lines)
    could_fit = min(whole, budget_tokens)
    return min(1.0, shown / could_fit) if could_fit else 0.0


def content_words(text: str) -> frozenset[str]:
    """Return the stems of a text's words without stop words."""
    return frozenset(distinct_terms(text)) - _stop_words()


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(distinct_terms(_STOP_WORDS))
