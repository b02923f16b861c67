"""Plays conversations under each placement, to compare what they cost and what their contexts show."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from contextopt.assemblies.assemble import UndecidedContext, resolve_config
from contextopt.assemblies.candidates import load_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.placement.conversations import shared_prefix
from contextopt.assemblies.placement.scripts import QuestionIn, Script
from contextopt.engine.placement.choice import CARRIED_TIMES, PLACEMENTS, Place
from contextopt.engine.placement.prices import CachePrices
from contextopt.engine.placement.sight import NOTHING
from contextopt.engine.placement.simulation import Played, Turn, play
from contextopt.engine.quality.evidence import Evidence, line_frame, shows_evidence
from contextopt.engine.text.tokens import Tokenizer, get_tokenizer
from contextopt.search.hybrid import prepare_query
from contextopt.spaces.models import Space

SYSTEM_TOKENS = 800
ANSWER_TOKENS = 120

type Recall = Callable[[QuestionIn, Mapping[str, str]], float]
"""Returns the share of a question's evidence that lines show, by external id."""
type OnProgress = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A conversation whose candidates are loaded: its questions, its turns, its records' external ids, and
    the records as evidence by external id.
    """

    name: str
    questions: tuple[QuestionIn, ...]
    turns: tuple[Turn, ...]
    names: Mapping[int, str]
    evidence: Mapping[str, Evidence]
    tokenizer: Tokenizer

    def slices(self, count: int) -> "Iterator[Rehearsal]":
        """Yield conversations of this many consecutive questions. A shorter remainder is dropped."""
        for first in range(0, len(self.turns) - count + 1, count):
            part = slice(first, first + count)
            yield replace(self, questions=self.questions[part], turns=self.turns[part])

    def recall(self, question: QuestionIn, lines: Mapping[str, str]) -> float:
        """Return the share of the expected records that lines show, as much of them as the answer needs."""
        shown = (
            name in self.evidence and shows_evidence(self.evidence[name], lines.get(name), question.answer)
            for name in question.expected
        )
        return sum(shown) / len(question.expected)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Means per prompt of conversations under one placement. `cost` is in input tokens at full price."""

    placement: str
    prices: CachePrices
    cost: float
    tokens: float
    hit_rate: float
    recall: float | None

    def to_json(self) -> dict[str, object]:
        return {
            "placement": self.placement,
            "read": self.prices.read,
            "write": self.prices.write,
            "cost": round(self.cost, 1),
            "hit_rate": round(self.hit_rate, 4),
            "recall": None if self.recall is None else round(self.recall, 4),
        }


def load_rehearsal(space: Space, script: Script, *, context_tokens: int | None) -> Rehearsal:
    """Load the candidates of every question once. The space must hold the script's records, embedded.

    Raises:
        InvalidValue: the budget is outside its range.
    """
    names = dict(space.records.values_list("pk", "external_id"))
    evidence = {
        row.external_id: Evidence(row.notes, line_frame(row.title, row.type, row.date, row.tags))
        for row in script.records
        if row.date is not None
    }
    tokenizer = get_tokenizer(load_space(space.team_id, space.slug).settings["encoding"])
    turns = tuple(
        _load_turn(space, script, question, tokenizer, context_tokens) for question in script.questions
    )
    return Rehearsal(script.name, script.questions, turns, names, evidence, tokenizer)


def _load_turn(
    space: Space, script: Script, asked: QuestionIn, tokenizer: Tokenizer, context_tokens: int | None
) -> Turn:
    as_of = script.ended_at
    request = AssemblyIn(space=space.slug, query=asked.query, as_of=as_of, context_tokens=context_tokens)
    loaded = load_space(space.team_id, space.slug)
    config, _ = resolve_config(loaded, request)
    context = UndecidedContext(loaded, config, prepare_query(asked.query), as_of, tokenizer)
    for found in context.reach_out():
        if not context.decide(found, NOTHING).wants_more_candidates:
            break
    versions = {record.id: record.version for record in found.records}
    return Turn(tokenizer.count(asked.query), partial(context.decide, found), versions)


def rehearse(
    rehearsals: Sequence[Rehearsal],
    prices: CachePrices,
    *,
    context_tokens: int,
    recall: Recall | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Iterator[Outcome]:
    """Play the conversations under each placement at these prices."""
    for placement in PLACEMENTS:
        prompts: list[Played] = []
        shares: list[float] = []
        for number, rehearsal in enumerate(rehearsals, start=1):
            on_progress(f"conversation {number:,} of {len(rehearsals):,}, placement {placement}")
            place = Place(
                placement, prices, CARRIED_TIMES * context_tokens, partial(shared_prefix, rehearsal.tokenizer)
            )
            played = list(
                play(
                    rehearsal.turns,
                    place,
                    rehearsal.tokenizer,
                    system_tokens=SYSTEM_TOKENS,
                    answer_tokens=ANSWER_TOKENS,
                )
            )
            prompts += played
            shares += [
                (recall or rehearsal.recall)(
                    question, {rehearsal.names[one]: line for one, line in prompt.lines.items()}
                )
                for question, prompt in zip(rehearsal.questions, played, strict=True)
                if question.expected
            ]
        yield _outcome(placement, prices, prompts, shares)


def _outcome(
    placement: str, prices: CachePrices, prompts: Sequence[Played], shares: Sequence[float]
) -> Outcome:
    tokens = sum(prompt.split.tokens for prompt in prompts)
    return Outcome(
        placement,
        prices,
        cost=fmean(prompt.cost for prompt in prompts),
        tokens=tokens / len(prompts),
        hit_rate=sum(prompt.split.cached for prompt in prompts) / tokens,
        recall=fmean(shares) if shares else None,
    )
