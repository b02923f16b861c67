"""Plays conversations under each placement, to compare what they cost and what their contexts show."""

import secrets
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from statistics import fmean
from typing import Annotated

from django.db import transaction
from django.utils import timezone
from pydantic import Field, ValidationError, ValidationInfo, field_validator

from contextopt.assemblies.assemble import prepare_question, prepare_request, reach_out
from contextopt.assemblies.candidates import load_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.placement.modelcatalog import PriceBook
from contextopt.assemblies.placement.state import shared_prefix
from contextopt.assemblies.tokenfactors import choose_tokenizer
from contextopt.engine.evidence import Evidence, line_frame, shows_evidence
from contextopt.engine.placement.blocks import NOTHING
from contextopt.engine.placement.choice import CARRIED_TIMES, PLACEMENTS, CachePrices, Place
from contextopt.engine.placement.simulation import Played, Turn, play
from contextopt.engine.settings import MAX_PART_TOKENS
from contextopt.engine.text.cleaning import flatten_to
from contextopt.engine.text.tokens import Tokenizer
from contextopt.errors import InvalidInput
from contextopt.inputs import NUMBER, QUERY_MAX, Input, Moment, Name, Text, field_problems
from contextopt.limits import MODEL_MAX, NAME_MAX
from contextopt.people.audit import SYSTEM
from contextopt.people.models import Team
from contextopt.spaces.importing.dialogues import SOURCE, TURN_TYPE, SpokenDialogue, parse_dialogues
from contextopt.spaces.inputs import RecordIn, SpaceIn
from contextopt.spaces.models import Space
from contextopt.spaces.records import upsert_records
from contextopt.spaces.spaces import create_space

CONVERSATION = "conversation"


class QuestionIn(Input):
    """A turn of a conversation. `expected` are the external ids of the records that answer it."""

    query: Annotated[Text, Field(min_length=1, max_length=QUERY_MAX)]
    answer: Text = ""
    expected: list[Text] = Field(default_factory=list)


class DatedRecordIn(RecordIn):
    """A record of a conversation file. Its date decides what is recent at the end of the file."""

    date: Moment


class ConversationFileIn(Input):
    """Records, and the questions that a conversation asks about them, in order."""

    name: Name = CONVERSATION
    records: Annotated[list[DatedRecordIn], Field(min_length=1)]
    turns: Annotated[list[QuestionIn], Field(min_length=1)]

    @field_validator("turns")
    @classmethod
    def check_expected(cls, turns: list[QuestionIn], info: ValidationInfo) -> list[QuestionIn]:
        if "records" not in info.data:
            return turns
        known = {record.external_id for record in info.data["records"] if record.external_id}
        for expected in (name for turn in turns for name in turn.expected):
            if expected not in known:
                raise ValueError(f"no record has the external ID {expected[:80]!r}, which a turn expects")
        return turns


@dataclass(frozen=True, slots=True)
class Script:
    """Records, and the questions about them in order."""

    name: str
    records: tuple[RecordIn, ...]
    questions: tuple[QuestionIn, ...]

    @property
    def ended_at(self) -> datetime:
        return max(record.date for record in self.records if record.date is not None)


def parse_scripts(content: bytes) -> list[Script]:
    """Return the conversations of a file: one of ours as an object, or dialogues as a list.

    Raises:
        InvalidInput: the file has neither form; the first fault is named.
    """
    content = content.removeprefix(BOM_UTF8)
    try:
        if content.lstrip()[:1] == b"[":
            return [_script(dialogue) for dialogue in parse_dialogues(content)]
        read = ConversationFileIn.model_validate_json(content)
    except ValidationError as error:
        raise InvalidInput(field_problems(error)[:1]) from error
    return [Script(read.name, tuple(read.records), tuple(read.turns))]


def _script(dialogue: SpokenDialogue) -> Script:
    records = tuple(
        RecordIn(
            title=turn.speaker,
            type=TURN_TYPE,
            date=turn.said_at,
            notes=turn.text,
            thread=f"session-{turn.session}",
            position=turn.position,
            source=SOURCE,
            external_id=turn.id,
        )
        for turn in dialogue.turns
    )
    questions = tuple(
        QuestionIn(query=asked.text[:QUERY_MAX], answer=asked.answer, expected=sorted(asked.evidence))
        for asked in dialogue.questions
    )
    return Script(flatten_to(dialogue.name, NAME_MAX) or CONVERSATION, records, questions)


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


def load_rehearsal(space: Space, script: Script, *, context_tokens: int | None, model: str = "") -> Rehearsal:
    """Load the candidates of every question once. The space must hold the script's records, embedded.
    Tokens are those of the model, if there is one.

    Raises:
        InvalidValue: the budget is outside its range.
    """
    names = dict(space.records.values_list("pk", "external_id"))
    evidence = {
        row.external_id: Evidence(row.notes, line_frame(row.title, row.type, row.date, row.tags))
        for row in script.records
        if row.date is not None
    }
    usual = load_space(space.team_id, space.slug).settings.encoding
    tokenizer = choose_tokenizer(space.team_id, model=model, encoding=None, usual=usual)
    turns = tuple(
        _load_turn(space, script, question, tokenizer, context_tokens, model) for question in script.questions
    )
    return Rehearsal(script.name, script.questions, turns, names, evidence, tokenizer)


def _load_turn(
    space: Space,
    script: Script,
    asked: QuestionIn,
    tokenizer: Tokenizer,
    context_tokens: int | None,
    model: str,
) -> Turn:
    request = AssemblyIn(
        space=space.slug,
        query=asked.query,
        as_of=script.ended_at,
        context_tokens=context_tokens,
        model=model,
    )
    prepared = prepare_request(team_id=space.team_id, request=request, actor=SYSTEM)
    for found in reach_out(prepared, prepare_question(prepared.space, asked.query)):
        if not prepared.decide(found, NOTHING).wants_more_candidates:
            break
    versions = {record.id: record.version for record in found.records}
    return Turn(tokenizer.count(asked.query), partial(prepared.decide, found), versions)


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


SCENARIOS = (CachePrices(0.1, 1.25), CachePrices(0.5, 1.0))
CONTEXT_TOKENS = 2_000
TURNS = 15
RECORDS_MAX = 1_000
TURNS_MAX = 50

type Prepare = Callable[[Space], object]
"""Makes a space's records searchable."""


class SimulationIn(ConversationFileIn):
    """A conversation to play under each placement.

    With a `model`, its prices apply. Without one, two scenarios are compared: cached reads at 0.1 and writes
    at 1.25 of the input price, and cached reads at 0.5 and writes at 1.
    """

    records: Annotated[list[DatedRecordIn], Field(min_length=1, max_length=RECORDS_MAX)]
    turns: Annotated[list[QuestionIn], Field(min_length=1, max_length=TURNS_MAX)]
    context_tokens: Annotated[int, Field(ge=1, le=MAX_PART_TOKENS), NUMBER] = CONTEXT_TOKENS
    model: Annotated[Text, Field(max_length=MODEL_MAX)] = ""

    def to_script(self) -> Script:
        return Script(self.name, tuple(self.records), tuple(self.turns))


def simulate(
    *,
    team: Team,
    scripts: Sequence[Script],
    context_tokens: int,
    turns: int,
    model: str,
    actor: str,
    prepare: Prepare,
    on_progress: OnProgress = lambda _: None,
) -> Iterator[Outcome]:
    """Yield the outcome of each placement, at the model's prices or in each scenario.

    A conversation of more than `turns` questions is split into several; a shorter remainder is dropped.

    Raises:
        InvalidInput: the model's prices are not known.
        InvalidValue: the budget is outside its range.
    """
    scenarios = (_prices_of(model),) if model else SCENARIOS
    conversations: list[Rehearsal] = []
    for number, script in enumerate(scripts, start=1):
        on_progress(f"loading conversation {number:,} of {len(scripts):,}")
        loaded = _load(team, script, actor, prepare, context_tokens, model)
        conversations += loaded.slices(min(turns, len(loaded.turns)))
    for prices in scenarios:
        yield from rehearse(conversations, prices, context_tokens=context_tokens, on_progress=on_progress)


def _prices_of(model: str) -> CachePrices:
    price = PriceBook().price(model, timezone.now().date())
    if price is None:
        raise InvalidInput.of(
            "model", f"the prices of {model!r} are not known; enter them under Model prices in the admin"
        )
    return price.cache


def _load(
    team: Team, script: Script, actor: str, prepare: Prepare, context_tokens: int, model: str
) -> Rehearsal:
    """Load the script's candidates from a space that is rolled back: nobody sees it, and if the process is
    killed, nothing is left.
    """
    with transaction.atomic():
        slug = f"simulation-{secrets.token_hex(6)}"
        space = create_space(team=team, data=SpaceIn(slug=slug, name=script.name), actor=actor)
        upsert_records(space=space, rows=list(script.records), actor=actor)
        prepare(space)
        loaded = load_rehearsal(space, script, context_tokens=context_tokens, model=model)
        transaction.set_rollback(True)
    return loaded
