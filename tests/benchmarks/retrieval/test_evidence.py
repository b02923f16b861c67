import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.retrieval.dialogues import Dialogue, Question, Turn, load_dialogues
from benchmarks.retrieval.evidence import Context, measure_context

ANSWER = "A blue bicycle from the market"
SAID_AT = datetime(2024, 1, 1, 9, tzinfo=UTC)
BOUGHT = Turn("D1:1", "Ada", "I bought a bicycle, a blue one, at the old market.", SAID_AT, 1, 0)
GREETED = Turn("D1:2", "Bob", "Good to hear from you.", SAID_AT, 1, 1)
# All turns are of one day.
BOUGHT_FRAME, GREETED_FRAME = (turn.frame(has_date=False) for turn in (BOUGHT, GREETED))


def measure(*lines: tuple[Turn, str], answer: str = ANSWER, budget: int = 100) -> tuple[float, float]:
    question = Question("What did Ada buy?", "single-hop", answer, frozenset({"D1:1", "D1:2"}))
    shown = {turn.id: line for turn, line in lines}
    context = Context("".join(shown.values()), shown)
    measured = measure_context(Dialogue("d", (BOUGHT, GREETED), (question,)), question, context, budget)
    return measured.recall, measured.precision


def test_a_turn_counts_if_half_of_the_answers_words_in_it_are_shown() -> None:
    assert measure((BOUGHT, f"{BOUGHT_FRAME}I bought a bicycle, a blue one, …\n")) == (0.5, 1.0)
    assert measure((BOUGHT, f"{BOUGHT_FRAME}I bought …\n")) == (0.0, 1.0)


def test_a_turn_without_words_of_the_answer_counts_if_it_is_shown() -> None:
    assert measure((GREETED, f"{GREETED_FRAME}Good …\n")) == (0.5, 1.0)


def test_words_of_the_frame_do_not_count() -> None:
    assert measure((BOUGHT, BOUGHT_FRAME), answer="Ada") == (0.5, 1.0)
    assert measure((BOUGHT, BOUGHT_FRAME), answer="Ada bought it") == (0.0, 1.0)


def test_without_an_answer_tokens_count_of_those_that_fit() -> None:
    both = ((BOUGHT, BOUGHT.line_after(BOUGHT_FRAME)), (GREETED, GREETED.line_after(GREETED_FRAME)))
    assert measure(*both, answer="") == (1.0, 1.0)
    recall, _ = measure(both[0], answer="")
    assert 0.5 < recall < 1
    assert measure(both[0], answer="", budget=15) == (1.0, 1.0)


def test_what_was_said_counts_alone_too_without_an_answer() -> None:
    question = Question("What was said?", "meeting", "", frozenset({"D1:1", "D1:2"}))
    dialogue = Dialogue("d", (BOUGHT, GREETED), (question,))
    line = f"{GREETED_FRAME}Good …\n"
    ours = measure_context(dialogue, question, Context(line, {GREETED.id: line}), 100)
    assert 0 < ours.said < ours.recall
    bare = GREETED.line_after(GREETED.bare_frame)
    assert bare == "Bob: Good to hear from you.\n"
    whole = measure_context(dialogue, question, Context(bare, {GREETED.id: bare}, is_bare=True), 5)
    assert (whole.recall, whole.said) == (1.0, 1.0)


def test_an_empty_context_has_neither() -> None:
    assert measure() == (0.0, 0.0)


@pytest.mark.parametrize(
    ("turn_id", "category", "kind"),
    [("D1:1", 2, "temporal"), ("M0", "event_ordering", "event ordering"), ("T12", "meeting", "meeting")],
)
def test_reads_each_sets_ids_and_kinds(tmp_path: Path, turn_id: str, category: object, kind: str) -> None:
    turns = [{"speaker": "Ada", "dia_id": turn_id, "text": "Hello."}]
    conversation = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns}
    asked = {"question": "Who?", "category": category, "evidence": [turn_id, "D9:9"]}
    path = tmp_path / "dialogues.json"
    path.write_text(json.dumps([{"sample_id": "x", "conversation": conversation, "qa": [asked]}]))
    (dialogue,) = load_dialogues(path)
    assert dialogue.questions == (Question("Who?", kind, "", frozenset({turn_id})),)
