"""Reads conversations to rehearse: records with questions about them.

Two forms are read: our own, and dialogues whose questions are asked as turns (`spaces.importing.dialogues`).
"""

from codecs import BOM_UTF8
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from contextopt.engine.text.cleaning import flatten_to
from contextopt.errors import InvalidInput
from contextopt.inputs import QUERY_MAX, Input, Moment, Name, Text, field_problems
from contextopt.limits import NAME_MAX
from contextopt.spaces.importing.dialogues import SOURCE, TURN_TYPE, SpokenDialogue, parse_dialogues
from contextopt.spaces.inputs import RecordIn

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
