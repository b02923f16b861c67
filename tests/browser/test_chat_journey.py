"""A question while the endpoint is down, its answer once it is back, and a vote on the answer."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from contextopt import tasks
from contextopt.chat.models import Author, Message
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from memory.feedback.models import Vote
from tests import factories
from tests.browser.conftest import DESK, FITS, PHONE
from tests.model_server import ModelServer, refused

ANSWER = "Restart the workers one at a time.\n\nThe old lock goes with the last of them."


@pytest.fixture
def llm(settings: Any) -> Iterator[ModelServer]:
    with ModelServer() as server:
        settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.LLM_MODEL = server.base_url, "sk-test", "small"
        server.content = ANSWER
        yield server


@pytest.fixture
def space(team: Team) -> Space:
    made = factories.make_space(team)
    for days in range(4):
        factories.make_record(
            made, title=f"Queue stuck, day {days}", date=datetime.now(UTC) - timedelta(days=days)
        )
    return made


def test_code_in_an_answer_has_its_own_look(
    space: Space, open_page: Callable[..., Page], settings: Any
) -> None:
    answer = factories.make_answer(factories.make_conversation(space), settings, "```python\nx = 1\n```")
    page = open_page(**PHONE)
    page.goto(f"/chat/{answer.conversation_id}/")
    expect(page.locator(".prose pre")).to_have_css("padding", "10px 12px")
    expect(page.locator(".code-head button")).to_have_css("position", "static")


def test_from_a_dead_endpoint_to_a_vote(
    llm: ModelServer,
    space: Space,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    page = open_page(**PHONE)
    page.goto("/chat/")
    expect(page.get_by_role("heading", name="No conversations yet")).to_be_visible()
    check_accessibility(page)

    # The endpoint is down: the message is queued, with the reason and the time of the next try.
    llm.script.append(refused(503, Retry_After="60"))
    page.get_by_label("Stage", exact=True).select_option("4")
    field = page.get_by_label("Message", exact=True)
    field.fill("Why is the queue stuck?")
    field.press("Enter")
    expect(page).to_have_url(re.compile(r"/chat/\d+/#id_text$"))
    expect(page.locator(".waiting .tag")).to_have_text("sending")
    expect(field).to_be_focused()
    tasks.send_messages()
    expect(page.locator(".waiting .tag")).to_have_text("queued")
    expect(page.locator(".waiting")).to_contain_text("The model endpoint answered 503.")
    expect(page.locator(".waiting")).to_contain_text("Next try in")
    assert page.locator(".thumb").count() == 0
    check_accessibility(page)

    # The endpoint is back: one answer arrives, without a reload.
    page.evaluate("window.stillHere = true")
    page.get_by_role("button", name="Try now").click()
    expect(page.locator(".waiting .tag")).to_have_text("sending")
    tasks.send_messages()
    tasks.send_messages()
    expect(page.locator(".bubble.answered")).to_contain_text("Restart the workers one at a time.")
    assert Message.objects.filter(author=Author.ASSISTANT).count() == 1
    assert len({request.headers["idempotency-key"] for request in llm.seen}) == 1

    # A second question by keyboard alone; Shift+Enter begins a line.
    field = page.get_by_label("Message", exact=True)
    field.fill("And")
    field.press("Shift+Enter")
    field.press_sequentially("then?")
    field.press("Enter")
    expect(page.locator(".turn")).to_have_count(2)
    expect(field).to_have_value("")
    tasks.send_messages()
    expect(page.locator(".bubble.answered")).to_have_count(2)
    assert Message.objects.filter(author=Author.USER).latest("pk").text == "And\nthen?"

    # A vote is cast, changed and explained.
    first = page.locator(".turn").first
    up, down = (first.get_by_role("button", name=re.compile(name)) for name in ("^Upvote", "^Downvote"))
    up.click()
    expect(up).to_have_attribute("aria-pressed", "true")
    down.click()
    expect(down).to_have_attribute("aria-pressed", "true")
    expect(up).to_have_attribute("aria-pressed", "false")
    first.get_by_text("Add a reason").click()
    first.get_by_label("Reason").select_option("outdated")
    comment = first.get_by_label("Comment")
    comment.fill("That was last year.")
    # Dragging would set an inline style, which htmx copies and the CSP forbids.
    assert comment.evaluate("node => getComputedStyle(node).resize") == "none"
    check_accessibility(page)
    first.get_by_role("button", name="Save").click()
    expect(first.locator(".why summary")).to_have_text("outdated")
    expect(first.locator(".why summary")).to_be_focused()
    vote = Vote.objects.get()
    assert (vote.rating, vote.reason, vote.comment) == ("down", "outdated", "That was last year.")
    assert page.evaluate("window.stillHere")
    assert page.evaluate(FITS)

    # The prompt that was sent, and the Inspector with the same vote.
    first.locator(".how summary").click()
    expect(first.locator("svg.allocation")).to_be_visible()
    first.get_by_role("link", name="Inspector").click()
    expect(page.locator("#feedback")).to_contain_text("That was last year.")
    assert page.evaluate(FITS)
    check_accessibility(page)
    page.get_by_role("link", name="The answer in its conversation").click()

    # The votes and their records on the Feedback page.
    page.goto("/feedback/")
    expect(page.locator("#tile-down .value")).to_have_text("1")
    expect(page.locator("#plot-votes .bars path")).not_to_have_count(0)
    expect(page.get_by_role("region", name="Records", exact=True)).to_contain_text("Queue stuck, day 0")
    assert page.evaluate(FITS)
    check_accessibility(page)
    page.get_by_label("Stage", exact=True).select_option("4")
    expect(page).to_have_url(re.compile(r"\?.*stage=4"))
    page.get_by_role("link", name="Downvoted answers of Stage 4").click()
    expect(page.locator("#votes tbody tr")).to_have_count(1)
    check_accessibility(page)
    page.get_by_role("link", name="Answer", exact=True).click()
    down = page.locator(".turn").first.get_by_role("button", name=re.compile("^Downvote"))
    down.click()
    expect(down).to_have_attribute("aria-pressed", "false")
    expect(page.get_by_role("alert")).to_have_count(0)
    assert not Vote.objects.exists()


def test_without_an_endpoint_the_prompt_is_shown(
    settings: Any,
    space: Space,
    open_page: Callable[..., Page],
    check_accessibility: Callable[[Page], None],
) -> None:
    settings.LLM_BASE_URL = ""
    page = open_page(**PHONE)
    page.goto("/chat/")
    expect(page.get_by_role("heading", name="No model connected")).to_be_visible()
    field = page.get_by_label("Message", exact=True)
    field.fill("Why is the queue stuck?")
    field.press("Enter")
    expect(page.locator("#prompt")).to_contain_text("Queue stuck, day 0")
    expect(page.locator("#prompt")).to_contain_text("Why is the queue stuck?")
    page.get_by_role("button", name="Copy", exact=True).last.click()
    expect(page.get_by_text("Copied.")).to_be_visible()
    assert page.evaluate(FITS)
    check_accessibility(page)
    page.goto("/feedback/")
    expect(page.get_by_role("heading", name="No votes yet")).to_be_visible()
    check_accessibility(page)


IN_SIGHT = """() => {
  const turn = document.querySelector('.turn:last-child').getBoundingClientRect();
  const composer = document.querySelector('#composer').getBoundingClientRect();
  return turn.top >= 0 && turn.bottom <= composer.top && composer.bottom <= innerHeight;
}"""


def test_the_newest_turn_is_in_sight_unless_the_reader_has_scrolled_up(
    llm: ModelServer, settings: Any, space: Space, open_page: Callable[..., Page]
) -> None:
    conversation = factories.make_conversation(space)
    turns = [factories.make_answer(conversation, settings) for _ in range(12)]
    settings.LLM_BASE_URL = llm.base_url
    page = open_page(**PHONE)
    page.goto(f"/chat/{conversation.pk}/")
    expect(page.locator(".turn")).to_have_count(12)
    assert page.evaluate("scrollY") > 0
    assert page.evaluate(IN_SIGHT)

    field = page.get_by_label("Message", exact=True)
    field.fill("And what next?")
    field.press("Enter")
    expect(page.locator(".turn")).to_have_count(13)
    page.wait_for_function(IN_SIGHT)
    tasks.send_messages()
    expect(page.locator(".bubble.answered")).to_have_count(13)
    page.wait_for_function(IN_SIGHT)

    field.fill("Anything else?")
    field.press("Enter")
    expect(page.locator(".turn")).to_have_count(14)
    page.wait_for_function(IN_SIGHT)
    page.evaluate("scrollTo(0, 0)")
    tasks.send_messages()
    expect(page.locator(".bubble.answered")).to_have_count(14)
    assert page.evaluate("scrollY") == 0

    page.goto("/chat/")
    page.goto(f"/chat/{conversation.pk}/#turn-{turns[5].reply_to_id}")
    assert page.locator(f"#turn-{turns[5].reply_to_id}").bounding_box()["y"] < 300


def test_a_message_that_is_too_long_is_refused_and_the_focus_stays(
    llm: ModelServer, space: Space, open_page: Callable[..., Page]
) -> None:
    conversation = factories.make_conversation(space)
    page = open_page(**DESK)
    page.goto(f"/chat/{conversation.pk}/")
    field = page.get_by_label("Message", exact=True)
    send = page.get_by_role("button", name="Send")
    field.fill("x" * 100_001)
    send.click()
    expect(page.locator("#composer")).to_contain_text("at most 100000 characters (it has 100001)")
    expect(field).to_be_focused()
    field.fill("word " * 5_000)
    send.click()
    expect(page.locator("#composer")).to_contain_text(
        re.compile(r"The message is too long by [\d,]+ tokens\.")
    )
    expect(field).to_be_focused()
    field.fill("Why is the queue stuck?")
    send.click()
    expect(page.locator(".turn")).to_have_count(1)
    expect(field).to_be_focused()
