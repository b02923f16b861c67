from datetime import UTC, datetime

import pytest

from contextopt.engine.evidence import (
    Evidence,
    content_words,
    line_frame,
    share_shown,
    shows_evidence,
)
from contextopt.engine.rendering import question_start, with_excerpt
from tests.contextopt.engine.factories import TOKENIZER

SAID_AT = datetime(2024, 1, 1, 9, tzinfo=UTC)
NOTES = "I bought a bicycle, a blue one, at the old market."
FRAME = line_frame("Ada", "message", SAID_AT, ["shopping"])
BOUGHT = Evidence(NOTES, FRAME)
ANSWER = "A blue bicycle from the market"


def test_the_frame_is_the_line_up_to_the_notes() -> None:
    assert with_excerpt(question_start("Ada", "message", SAID_AT, ["shopping"]), NOTES) == f"{FRAME}{NOTES}\n"


@pytest.mark.parametrize(
    ("shown", "answer", "counts"),
    [
        (None, ANSWER, False),
        (None, "", False),
        ("I bought a bicycle, a blue one, …", ANSWER, True),
        ("… a bicycle …", ANSWER, False),
        ("…", "", True),
        ("…", "Nothing that the record says", True),
        # The title names Ada, but the notes do not.
        ("…", "Ada", True),
        ("…", "Ada bought it", False),
    ],
)
def test_a_record_counts_if_half_of_the_answers_words_in_it_are_shown(shown, answer, counts) -> None:
    line = None if shown is None else f"{FRAME}{shown}\n"
    assert shows_evidence(BOUGHT, line, answer) is counts


@pytest.mark.parametrize(
    ("shown", "budget", "share"),
    [
        ({}, 100, 0.0),
        ({1: f"{FRAME}{NOTES}\n"}, 1_000, 0.5),
        ({1: f"{FRAME}{NOTES}\n", 2: f"{FRAME}{NOTES}\n"}, 1_000, 1.0),
        # The budget has room for one record only.
        ({1: f"{FRAME}{NOTES}\n"}, TOKENIZER.count(f"{FRAME}{NOTES}\n"), 1.0),
        ({3: f"{FRAME}{NOTES}\n"}, 1_000, 0.0),
        ({1: f"{FRAME}{NOTES}\n"}, 0, 0.0),
    ],
)
def test_the_share_of_the_evidence_that_is_shown(shown, budget, share) -> None:
    assert share_shown({1: BOUGHT, 2: BOUGHT}, shown, budget, TOKENIZER) == share


def test_a_shortened_line_counts_with_its_tokens() -> None:
    short = share_shown({1: BOUGHT}, {1: f"{FRAME}I bought a bicycle, …\n"}, 1_000, TOKENIZER)
    assert 0.3 < short < 1


def test_words_without_content_do_not_count() -> None:
    assert content_words("The bicycles that she had") == content_words("a bicycle")
