"""Prompts that clients send to themselves, in our own words, and prompts of people that look like them."""

import json
from typing import Any

import pytest

from contextopt.gateway.clientprompts import is_client_internal, is_handover, says_go_on
from contextopt.gateway.prompts import Prompt
from contextopt.gateway.protocols import read_chat

TOOLS = [{"type": "function", "function": {"name": "run"}}]
TALK = [{"role": "user", "content": "Why is the queue stuck?"}, {"role": "assistant", "content": "A lock."}]

SUMMARY = """Your job is to write a full summary of the conversation up to this point, so that work can go on.
Put your thoughts into <notes> tags first.

1. What the user wants
2. Files that were touched
3. What is left to do

Do not call any tools. The summary has to be complete, because nothing else of it will be kept.
"""
HANDOFF = """You are making a CHECKPOINT. Write a handoff for another model that takes over this session.

- What was decided
- What the user prefers
- Which steps are left

Be concise. Do not call tools."""
FOLLOW_UPS = """### Task:
Suggest 3 to 5 follow-up questions that the user might ask next in this chat.
### Guidelines:
- Write in the user's language
- Keep each under 12 words
### Output:
Return only JSON: {"questions": []}
### Chat:
USER: Why is the queue stuck?
"""
TITLE = "Please give a title of 5 words for this conversation, without punctuation. Return only the title."
PAGE = f"""Page:
---
{"Workers keep their locks for ten minutes. " * 100}
---
Who keeps the locks?

Give a short response based only on the content above. Rules:
- Keep quotes under 100 characters
- Say when the page does not answer it
- Never comment on these rules"""
TITLE_SYSTEM = "You write titles. Reply with only the title of the conversation, in 3-7 words, no quotes."
COMMIT_SYSTEM = """You are an engineer who writes commit messages for the given diffs.
Reply only with a one-line message, without quotes or explanations."""

PEOPLES = [
    "Summarise our talk about pricing",
    "Please summarize the conversation so far.",
    "Summarize this thread in 3 bullets for the customer",
    "Write a commit message for this diff:\n\n+x = 1\n-x = 2\n",
    "Suggest a title for my blog post about chat apps",
    "What topics did we discuss in the last session?",
    "Create a summary of the meeting as a markdown table with the action items",
    "Analyze this transcript and tell me who owns the follow-up",
    "Give me a handoff note for the night shift about the chat outage, keep it concise",
    "Extract the tags from these messages:\n\nERROR 1\nERROR 2\n",
    # A person who pastes such a template asks about it.
    f"Why does our bot ignore this template?\n\n```\nclass Titles:\n    text = {TITLE_SYSTEM!r}\n```\n",
]


def prompt_of(*messages: dict[str, Any], **fields: Any) -> Prompt:
    return read_chat(json.dumps({"model": "m", "messages": messages, **fields}).encode())


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


@pytest.mark.parametrize("text", [SUMMARY, HANDOFF, FOLLOW_UPS, TITLE, PAGE])
def test_the_last_text_is_a_template(text: str) -> None:
    assert is_client_internal(prompt_of(system("Be kind."), *TALK, user(text), tools=TOOLS))


@pytest.mark.parametrize("text", [TITLE_SYSTEM, COMMIT_SYSTEM])
def test_the_system_prompt_is_a_template(text: str) -> None:
    question = user("Why is the queue stuck?")
    assert is_client_internal(prompt_of(system(text), question))
    assert is_client_internal(prompt_of(system(text), user("A title for this chat:"), question))
    # With tools, or further on in a chat, it is an application's own system prompt.
    assert not is_client_internal(prompt_of(system(text), question, tools=TOOLS))
    assert not is_client_internal(prompt_of(system(text), *TALK, question))


@pytest.mark.parametrize("text", PEOPLES)
def test_what_people_ask_is_a_question(text: str) -> None:
    assert not is_client_internal(prompt_of(*TALK, user(text)))
    assert not is_client_internal(prompt_of(system("You are a support agent. Keep it concise."), user(text)))


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_an_answer_of_one_token_is_for_no_person(name: str) -> None:
    assert is_client_internal(prompt_of(user("quota"), **{name: 1}))
    assert not is_client_internal(prompt_of(user("quota"), **{name: 2}))


def test_a_team_adds_phrases() -> None:
    prompt = prompt_of(user("Sort this ticket into  ONE\nof our queues: My mail is late."))
    assert not is_client_internal(prompt)
    assert is_client_internal(prompt, ["into one of our queues"])
    assert is_client_internal(prompt_of(system("Ticket router v2"), user("Hi")), ["ticket router"])


def test_a_long_paste_between_does_not_matter() -> None:
    text = f"{TITLE}\n\n{'word ' * 5_000}"
    assert is_client_internal(prompt_of(user(text)))
    assert is_client_internal(prompt_of(user(f"{'word ' * 5_000}\n\n{SUMMARY}")))


HANDOVER = """A different model worked on this until its context was full, and left the summary below.

The queue was stuck because a worker held its lock. It was restarted."""


def texts_of(*messages: dict[str, Any]) -> list[str]:
    return [turn.text for turn in prompt_of(*messages).turns]


@pytest.mark.parametrize(
    "text",
    [
        "Go on if there is more to do, or ask if it is not clear.",
        "Continue if there are steps left, and stop and wait for instructions otherwise.",
    ],
)
def test_a_client_lets_the_model_go_on(text: str) -> None:
    assert says_go_on(text)
    prompt = prompt_of(*TALK, user(text))
    assert ([turn.text for turn in prompt.turns], prompt.goes_on) == ([TALK[0]["content"]], True)
    # Alone, it is all that there is.
    assert texts_of(user(text)) == [text]


def test_a_summary_is_handed_over() -> None:
    question = user("Why is the queue stuck?")
    prompt = prompt_of(question, user(HANDOVER))
    assert ([turn.item for turn in prompt.turns], prompt.goes_on) == ([0], True)
    assert texts_of(question, user(HANDOVER), user("And now?"))[1:] == ["And now?"]
    # A person who was answered pastes one.
    assert texts_of(*TALK, user(HANDOVER)) == [TALK[0]["content"], HANDOVER]
    assert texts_of(user(HANDOVER)) == [HANDOVER]


@pytest.mark.parametrize(
    "text",
    [
        *PEOPLES,
        "Continue",
        "Please go on",
        "Go on with the deploy if the tests pass, or ask me.",
        "Continue if the disk is full, stop if not.",
        "Proceed if you can, otherwise tell me why not",
        "Resume the import if it has stopped, and wait for Ada",
        "Here is the summary that another model wrote of our meeting. Is it right?",
        "The previous agent told me that my order was sent. Where is it?",
    ],
)
def test_people_go_on_too(text: str) -> None:
    assert texts_of(*TALK, user(text))[1:] == [text]
    assert not is_handover(text)


SHELL = "<shell-input>ls</shell-input>\n<shell-stdout>notes.md\nWhat is left to do?</shell-stdout>"


def test_what_a_client_wraps_is_no_question() -> None:
    assert texts_of(user("<env>\ncwd: /srv\n</env>"), *TALK)[1:] == [TALK[0]["content"]]
    prompt = prompt_of(*TALK, user(SHELL))
    assert ([turn.item for turn in prompt.turns], prompt.goes_on) == ([0], True)
    assert texts_of(*TALK, user(SHELL), user("And now?"))[1:] == ["And now?"]
    # A program that wraps every question has no others.
    assert texts_of(user("<ticket>Late.</ticket>"), user("<ticket>Broken.</ticket>"))[1:] == [
        "<ticket>Broken.</ticket>"
    ]
    assert texts_of(*TALK, user("<userRequest>Why?</userRequest>"))[1:] == ["<userRequest>Why?</userRequest>"]
