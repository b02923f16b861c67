"""Conversations with questions, in the format of the LoCoMo benchmark, as spaces with records.

Sources: Maharana et al. 2024, Evaluating Very Long-Term Conversational Memory of LLM Agents (LoCoMo);
Tavakoli et al. 2025, Beyond a Million Tokens (BEAM); Zhong et al. 2021, QMSum.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from contextopt.engine.quality.evidence import line_frame
from contextopt.engine.text.cleaning import unbroken

# Questions that the conversation does not answer.
UNANSWERABLE = 5
TURN_TYPE = "message"
_TURN_ID = re.compile(r"D\d+:\d+|[MT]\d+")
_LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}


@dataclass(frozen=True, slots=True)
class Turn:
    id: str
    speaker: str
    text: str
    said_at: datetime
    session: int
    position: int

    @property
    def line(self) -> str:
        """Return the turn as the product renders a record with whole notes."""
        return f"{self.frame}{unbroken(self.text)}\n"

    @property
    def frame(self) -> str:
        """Return the beginning of the line, before the text."""
        return line_frame(self.speaker, TURN_TYPE, self.said_at, ())

    @property
    def said(self) -> str:
        return f"{self.speaker}\n{self.text}"


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answer ("" if the set gives none) and the ids of the turns that answer it."""

    text: str
    kind: str
    answer: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Dialogue:
    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]

    @property
    def ended_at(self) -> datetime:
        return max(turn.said_at for turn in self.turns)


def load_dialogues(path: Path) -> list[Dialogue]:
    return [_dialogue(item) for item in json.loads(path.read_text())]


def _dialogue(item: Mapping[str, Any]) -> Dialogue:
    turns = tuple(_turns(item["conversation"]))
    return Dialogue(item["sample_id"], turns, tuple(_questions(item["qa"], turns)))


def _turns(conversation: Mapping[str, Any]) -> Iterator[Turn]:
    for session in count(1):
        if f"session_{session}" not in conversation:
            return
        said_at = _moment(conversation[f"session_{session}_date_time"])
        for position, turn in enumerate(conversation[f"session_{session}"]):
            yield Turn(turn["dia_id"], turn["speaker"], turn["text"], said_at, session, position)


def _moment(text: str) -> datetime:
    """Read a time such as 1:56 pm on 8 May, 2023."""
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def _questions(rows: list[dict[str, Any]], turns: tuple[Turn, ...]) -> Iterator[Question]:
    known = {turn.id for turn in turns}
    for row in rows:
        evidence = frozenset(_TURN_ID.findall(" ".join(row["evidence"]))) & known
        category = row["category"]
        if category != UNANSWERABLE and evidence:
            kind = _LOCOMO_CATEGORIES.get(category, str(category).replace("_", " "))
            yield Question(row["question"], kind, str(row.get("answer", "")), evidence)
