"""Conversations with questions, in the format of the LoCoMo benchmark, as spaces with records.

Sources: Maharana et al. 2024, Evaluating Very Long-Term Conversational Memory of LLM Agents (LoCoMo);
Tavakoli et al. 2025, Beyond a Million Tokens (BEAM); Zhong et al. 2021, QMSum.
"""

from dataclasses import asdict, dataclass
from datetime import date, datetime
from pathlib import Path

from contextopt.engine.evidence import line_frame
from contextopt.engine.text.cleaning import unbroken
from contextopt.spaces.importing.dialogues import TURN_TYPE, SpokenDialogue, parse_dialogues

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
    def bare_frame(self) -> str:
        """Return the beginning of the line in its shortest form: a name and a colon."""
        return f"{self.speaker}: "

    def frame(self, *, has_date: bool) -> str:
        """Return the beginning of the line as the product writes it, before the text."""
        return line_frame(self.speaker, TURN_TYPE, self.said_at, (), has_date=has_date)

    def line_after(self, frame: str) -> str:
        return f"{frame}{unbroken(self.text)}\n"

    @property
    def said(self) -> str:
        return f"{self.speaker}\n{self.text}"


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answer ("" if the set has none) and the IDs of the turns that answer it."""

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

    @property
    def day(self) -> date | None:
        """Return the day of the turns if all are of one day; the product's header then has it."""
        days = {turn.said_at.date() for turn in self.turns}
        return days.pop() if len(days) == 1 else None


def load_dialogues(path: Path) -> list[Dialogue]:
    return [_dialogue(spoken) for spoken in parse_dialogues(path.read_bytes())]


def _dialogue(spoken: SpokenDialogue) -> Dialogue:
    turns = tuple(Turn(**asdict(turn)) for turn in spoken.turns)
    questions = tuple(
        Question(asked.text, _kind(asked.category), asked.answer, asked.evidence)
        for asked in spoken.questions
    )
    return Dialogue(spoken.name, turns, questions)


def _kind(category: int | str) -> str:
    name = _LOCOMO_CATEGORIES.get(category) if isinstance(category, int) else None
    return name or str(category).replace("_", " ")
