"""Reads conversations to rehearse: records with questions about them.

Two forms are read: our own, and dialogues whose questions are asked as turns, in the format of LoCoMo
(Maharana et al. 2024, Evaluating Very Long-Term Conversational Memory of LLM Agents).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from contextopt.errors import InvalidInput
from contextopt.inputs import QUERY_MAX, Input, Moment, Text, field_problems
from contextopt.spaces.inputs import RecordIn

# Questions that the dialogue does not answer.
UNANSWERABLE = 5
SOURCE = "dialogue"
_TURN_ID = re.compile(r"D\d+:\d+|[MT]\d+")
_TIME_FORMAT = "%I:%M %p on %d %B, %Y"


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

    name: Text = "conversation"
    records: Annotated[list[DatedRecordIn], Field(min_length=1)]
    turns: Annotated[list[QuestionIn], Field(min_length=1)]


class _SpokenIn(BaseModel):
    dia_id: str
    speaker: str
    text: str


class _AskedIn(BaseModel):
    question: str
    category: int | str
    evidence: list[str]
    answer: str | int | float | None = None


class _DialogueIn(BaseModel):
    sample_id: str
    conversation: dict[str, Any]
    qa: list[_AskedIn]


_DIALOGUES: TypeAdapter[list[_DialogueIn]] = TypeAdapter(list[_DialogueIn])
_SPOKEN: TypeAdapter[list[_SpokenIn]] = TypeAdapter(list[_SpokenIn])


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
    try:
        if content.lstrip()[:1] == b"[":
            return [_script(dialogue) for dialogue in _DIALOGUES.validate_json(content)]
        read = ConversationFileIn.model_validate_json(content)
    except ValidationError as error:
        raise InvalidInput(field_problems(error)[:1]) from error
    return [Script(read.name, tuple(read.records), tuple(read.turns))]


def _script(dialogue: _DialogueIn) -> Script:
    records = tuple(_records(dialogue))
    if not records:
        raise InvalidInput.of(dialogue.sample_id, "has no turns: session_1 is missing or empty")
    return Script(dialogue.sample_id, records, tuple(_questions(dialogue, records)))


def _records(dialogue: _DialogueIn) -> Iterator[RecordIn]:
    for session in count(1):
        name = f"session_{session}"
        if name not in dialogue.conversation:
            return
        said_at = _moment(dialogue.conversation.get(f"{name}_date_time"), f"{name}_date_time")
        for position, turn in enumerate(_SPOKEN.validate_python(dialogue.conversation[name])):
            yield RecordIn(
                title=turn.speaker,
                type="message",
                date=said_at,
                notes=turn.text,
                thread=name,
                position=position,
                source=SOURCE,
                external_id=turn.dia_id,
            )


def _moment(text: object, field: str) -> datetime:
    """Read a time such as 1:56 pm on 8 May, 2023."""
    try:
        return datetime.strptime(str(text), _TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        raise InvalidInput.of(field, "is not a time such as 1:56 pm on 8 May, 2023") from None


def _questions(dialogue: _DialogueIn, records: tuple[RecordIn, ...]) -> Iterator[QuestionIn]:
    known = {record.external_id for record in records}
    for row in dialogue.qa:
        evidence = sorted(set(_TURN_ID.findall(" ".join(row.evidence))) & known)
        if row.category != UNANSWERABLE and evidence:
            answer = "" if row.answer is None else str(row.answer)
            yield QuestionIn(query=row.question[:QUERY_MAX], answer=answer, expected=evidence)
