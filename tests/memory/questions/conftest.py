"""A space with a small dialogue, embedded, and questions about it."""

from datetime import UTC, datetime

import pytest

from contextopt.search import registry
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.search.wordcounts import count_words
from contextopt.spaces.models import Record, Space
from memory.questions.inputs import QuestionIn
from memory.questions.models import QuestionSet
from memory.questions.sets import add_question, create_set
from tests import factories

SAID_AT = datetime(2026, 5, 8, 13, 56, tzinfo=UTC)
TALK = (
    ("D1:1", "Ada", "I adopted a grey cat named Pixel from the shelter on Oslo Street."),
    ("D1:2", "Ben", "Great news! My brother moved to Bergen to build wooden boats."),
    ("D1:3", "Ada", "I started painting with watercolours, mostly lighthouses and storms."),
    ("D1:4", "Ben", "We should hike to the glacier before the bridge closes in October."),
    ("D1:5", "Ada", "My sister Nora opens a bakery that sells cardamom buns."),
    ("D1:6", "Ben", "I broke my bicycle, so I take the tram to the harbour now."),
)
ASKED = (
    ("q1", "Which pet did Ada adopt?", ["D1:1"], "A grey cat named Pixel"),
    ("q2", "Where did Ben's brother move?", ["D1:2"], "Bergen"),
    ("q3", "What does Nora sell in her bakery?", ["D1:5"], "Cardamom buns"),
    ("q4", "What does Ada paint?", ["D1:3"], "Lighthouses and storms in watercolours"),
)


def make_talk(space: Space) -> list[Record]:
    records = [
        factories.make_record(
            space, title=speaker, type="message", date=SAID_AT, notes=text, source="dialogue",
            external_id=name, thread="session-1", position=position,
        )
        for position, (name, speaker, text) in enumerate(TALK)
    ]  # fmt: skip
    make_searchable(space)
    return records


def make_searchable(space: Space) -> None:
    ensure_embedded(registry.get("record"), space.pk, limit=1_000)
    count_words(registry.get("record"), space.pk)


def make_questions(space: Space, name: str = "Small talk") -> QuestionSet:
    found = create_set(space=space, name=name, actor="test")
    for question_id, text, expected, answer in ASKED:
        data = QuestionIn(id=question_id, query=text, expected=expected, answer=answer, as_of=SAID_AT)
        add_question(question_set=found, data=data, actor="test")
    return found


@pytest.fixture
def talk(space: Space) -> list[Record]:
    return make_talk(space)


@pytest.fixture
def questions(space: Space, talk: list[Record]) -> QuestionSet:
    return make_questions(space)
