"""The subject of a question, as it is looked up."""

import pytest

from contextopt.engine.queryanalysis import subject_of, without_framing


@pytest.mark.parametrize(
    ("question", "subject"),
    [
        ("Summarize the discussion about trend watching.", "the about trend watching."),
        ("What did the group think of the budget when discussing it?", "What did the of the budget when it?"),
        ("Hva mente gruppen om batteriet?", "Hva om batteriet?"),
        ("Where did Ada buy the bicycle?", "Where did Ada buy the bicycle?"),
        ("Where do the grouped teamsters meet?", "Where do the grouped teamsters meet?"),
        ("What did the team say?", "What did the team say?"),
    ],
)
def test_words_about_the_talk_are_not_its_subject(question: str, subject: str) -> None:
    assert subject_of(question) == subject


@pytest.mark.parametrize(
    ("question", "subject"),
    [
        (
            "Walk me through the order in which I brought up parts of my move. Mention ONLY two items.",
            "parts of my move.",
        ),
        ("Please list in order how we discussed various ideas about the garden.", "the garden."),
        (
            "Can you list the order in which I raised different ways to travel across our chats, in order?",
            "to travel ?",
        ),
        ("In what order did I mention the flights?", "the flights?"),
        ("What did Ada say about the bicycle in all of our chats?", "What did Ada say about the bicycle ?"),
        ("Kan du liste opp rekkefølgen jeg tok opp ulike sider ved flyttingen?", "flyttingen?"),
        ("Hva sa Ada om sykkelen i samtalene våre? Nevn bare to ting.", "Hva sa Ada om sykkelen ?"),
    ],
)
def test_the_framing_of_a_question_is_not_looked_up(question: str, subject: str) -> None:
    assert without_framing(question) == subject


@pytest.mark.parametrize(
    "question",
    [
        "Can you list the order in which I brought up different topics?\n",
        "How do I list the rows in order?",
        "Mention only what changed.",
        "Why did we discuss the order in which jobs run?  And how?",
        "What is in our conversational agent?",
    ],
)
def test_a_question_without_framing_or_without_a_subject_stays(question: str) -> None:
    assert without_framing(question) == question
