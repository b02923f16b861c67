"""Whether a context shows the evidence that answers a question, and which records an answer used."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from math import log

from contextopt.engine.duplicates import numbers_in
from contextopt.engine.rendering import question_start
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


LEAST_WEIGHT = 2.5
"""The least sum of the weights of the shared words for a record that counts as used."""
LEAST_SHARE = 0.75
"""The least share of the best record's damped sum. Both limits and the damping were measured on dialogues."""
DAMPING = 0.75
"""The power of a record's number of distinct words that its sum is divided by."""


@dataclass(frozen=True, slots=True)
class Use:
    """A record's part in an answer: the shared words, rarest first, and their weight, 0 or more."""

    weight: float
    words: tuple[str, ...]
    is_used: bool


def estimate_use[Id](answer: str, question: str, records: Mapping[Id, str]) -> dict[Id, Use]:
    """Return each record's estimated part in the answer. `records` maps ids to the texts in the context."""
    wanted = _marks(answer) - _marks(question)
    held = {record_id: _marks(text) for record_id, text in records.items()}
    shared = {record_id: wanted & marks for record_id, marks in held.items()}
    holders = Counter(word for words in shared.values() for word in words)
    weights = {word: log(1 + len(records) / count) for word, count in holders.items()}
    sums = {record_id: sum(weights[word] for word in words) for record_id, words in shared.items()}
    damped = {
        record_id: weight / len(held[record_id]) ** DAMPING if weight >= LEAST_WEIGHT else 0.0
        for record_id, weight in sums.items()
    }
    least = LEAST_SHARE * max(damped.values(), default=0.0)
    return {
        record_id: Use(
            sums[record_id],
            tuple(sorted(words, key=lambda word: (-weights[word], word))),
            damped[record_id] > 0 and damped[record_id] >= least,
        )
        for record_id, words in shared.items()
    }


def _marks(text: str) -> frozenset[str]:
    return content_words(text) | numbers_in(text)
