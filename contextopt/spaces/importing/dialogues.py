"""Reads conversations with questions in the format of the LoCoMo benchmark.

Sources: Maharana et al. 2024, Evaluating Very Long-Term Conversational Memory of LLM Agents (LoCoMo);
Tavakoli et al. 2025, Beyond a Million Tokens (BEAM), and Zhong et al. 2021, QMSum, in the same format.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from contextopt.errors import InvalidInput
from contextopt.faults import WHOLE_INPUT
from contextopt.inputs import field_problems

# The largest file that commands read.
BYTES_MAX = 200 * 2**20
# Questions that the conversation does not answer.
UNANSWERABLE = 5
TURN_TYPE = "message"
SOURCE = "dialogue"
_SESSION = re.compile(r"session_([1-9]\d{0,5})")
_TURN_ID = re.compile(r"D\d+:\d+|[MT]\d+")
_TIME_FORMAT = "%I:%M %p on %d %B, %Y"


class _TurnIn(BaseModel):
    dia_id: str
    speaker: str
    text: str


class _QuestionIn(BaseModel):
    question: str
    category: int | str
    evidence: list[str]
    answer: str | int | float | None = None


class _DialogueIn(BaseModel):
    sample_id: Annotated[str, Field(min_length=1)]
    conversation: dict[str, Any]
    qa: list[_QuestionIn]


_FILE: TypeAdapter[list[_DialogueIn]] = TypeAdapter(Annotated[list[_DialogueIn], Field(min_length=1)])
_TURNS: TypeAdapter[list[_TurnIn]] = TypeAdapter(list[_TurnIn])


@dataclass(frozen=True, slots=True)
class SpokenTurn:
    id: str
    speaker: str
    text: str
    said_at: datetime
    session: int
    position: int


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question with its answer ("" if the file gives none) and the ids of the turns that answer it."""

    text: str
    category: int | str
    answer: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class SpokenDialogue:
    name: str
    turns: tuple[SpokenTurn, ...]
    questions: tuple[AskedQuestion, ...]

    @property
    def ended_at(self) -> datetime:
        return max(turn.said_at for turn in self.turns)


def parse_dialogues(content: bytes) -> list[SpokenDialogue]:
    """Return the conversations of a file. Questions without known evidence are left out.

    Raises:
        InvalidInput: the file is not in this format; the first fault is named.
    """
    try:
        return [_dialogue(each) for each in _FILE.validate_json(content.removeprefix(BOM_UTF8))]
    except ValidationError as error:
        raise InvalidInput(field_problems(error)[:1]) from error


def _dialogue(each: _DialogueIn) -> SpokenDialogue:
    turns = tuple(_turns(each))
    if not turns:
        raise InvalidInput.of(each.sample_id, "has no turns: no session such as session_1 has any")
    return SpokenDialogue(each.sample_id, turns, tuple(_questions(each.qa, {turn.id for turn in turns})))


def _turns(each: _DialogueIn) -> Iterator[SpokenTurn]:
    conversation = each.conversation
    sessions = sorted(int(found[1]) for name in conversation if (found := _SESSION.fullmatch(name)))
    for session in sessions:
        name = f"session_{session}"
        place = f"{each.sample_id}.{name}"
        said_at = _moment(conversation.get(f"{name}_date_time"), f"{place}_date_time")
        for position, turn in enumerate(_read_turns(conversation[name], place)):
            yield SpokenTurn(turn.dia_id, turn.speaker, turn.text, said_at, session, position)


def _read_turns(rows: object, place: str) -> list[_TurnIn]:
    try:
        return _TURNS.validate_python(rows)
    except ValidationError as error:
        fault = field_problems(error)[0]
        field = place if fault.field == WHOLE_INPUT else f"{place}.{fault.field}"
        raise InvalidInput.of(field, fault.message) from error


def _moment(text: object, field: str) -> datetime:
    """Read a time such as 1:56 pm on 8 May, 2023."""
    try:
        return datetime.strptime(str(text), _TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        raise InvalidInput.of(field, "is not a time such as 1:56 pm on 8 May, 2023") from None


def _questions(rows: list[_QuestionIn], known: set[str]) -> Iterator[AskedQuestion]:
    for row in rows:
        evidence = frozenset(_TURN_ID.findall(" ".join(row.evidence))) & known
        if row.category != UNANSWERABLE and evidence:
            answer = "" if row.answer is None else str(row.answer)
            yield AskedQuestion(row.question, row.category, answer, evidence)
