from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from contextopt.chat.models import Conversation, Message, MessageState
from contextopt.chat.outbox import claim_message, postpone
from contextopt.spaces.models import Space
from dashboard.pages.answers.chat import TURNS_SHOWN
from memory.feedback.models import Vote
from tests import factories
from tests.dashboard.conftest import HTMX, html_of
from tests.factories import NOW
from tests.queries import count_at_2_and_20

ENDPOINT = "http://127.0.0.1:9/v1"


@pytest.fixture
def conversation(space: Space) -> Conversation:
    return factories.make_conversation(space, title="The queue")


def page_of(client: Client, conversation: Conversation, query: str = "") -> str:
    return html_of(client, f"/chat/{conversation.pk}/{query}")


def turn_of(client: Client, message: Message) -> tuple[int, str]:
    response = client.get(f"/chat/messages/{message.pk}/", headers={**HTMX, "HX-Target": "turn"})
    return response.status_code, response.content.decode()


# Beginning


def test_without_spaces_the_page_says_how_to_get_one(owner_client: Client) -> None:
    html = html_of(owner_client, "/chat/")
    assert "No spaces yet" in html
    assert "import_git" in html


def test_without_an_endpoint_the_page_says_how_to_name_one(owner_client: Client, space: Space) -> None:
    assert "LLM_BASE_URL=" in html_of(owner_client, "/chat/")


def test_ask(owner_client: Client, space: Space) -> None:
    factories.make_record(space, date=timezone.now())
    data = {"space": space.slug, "stage": "3", "model": "", "text": "Why <b>stuck</b>?"}
    response = owner_client.post("/chat/ask", data, follow=True)
    conversation = Conversation.objects.get()
    assert (conversation.title, conversation.stage) == ("Why <b>stuck</b>?", 3)
    html = response.content.decode()
    assert "Why &lt;b&gt;stuck&lt;/b&gt;?" in html
    assert "not sent" in html
    # The exact text that would be sent, to copy.
    assert "BEGIN RECORDS" in html
    assert "Queue stuck after deploy" in html
    assert 'data-copy="#prompt"' in html
    assert "Why &lt;b&gt;stuck" in html_of(owner_client, "/chat/")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": " "}, "Must not be blank"),
        ({"text": "word " * 15_000}, "The message is too long by "),
        ({"text": "x" * 100_001}, "at most 100000 characters (it has 100001)"),
        ({"space": "nowhere"}, "Select a valid choice"),
        ({"stage": "9"}, "Select a valid choice"),
    ],
)
def test_what_cannot_be_asked_is_said(
    owner_client: Client, space: Space, changes: dict[str, str], message: str
) -> None:
    data = {"space": space.slug, "stage": "4", "text": "Why?", **changes}
    response = owner_client.post("/chat/ask", data)
    assert response.status_code == 422
    assert message in response.content.decode()
    assert not Conversation.objects.exists()


# Sending, waiting and being answered


def test_htmx_gets_the_turn_alone(owner_client: Client, conversation: Conversation, settings: Any) -> None:
    settings.LLM_BASE_URL = ENDPOINT
    response = owner_client.post(f"/chat/{conversation.pk}/send", {"text": "Why?"}, headers=HTMX)
    html = response.content.decode()
    assert response.status_code == 200
    assert "<html" not in html
    assert 'hx-trigger="every 1000ms"' in html
    assert Message.objects.get().state == MessageState.QUEUED


def test_htmx_gets_the_form_back_when_it_is_refused(owner_client: Client, conversation: Conversation) -> None:
    url = f"/chat/{conversation.pk}/send"
    response = owner_client.post(url, {"text": "word " * 15_000}, headers=HTMX)
    assert response.headers["HX-Retarget"] == "#composer"
    assert 'role="alert"' in response.content.decode()
    assert owner_client.post(url, {"text": ""}).status_code == 422
    assert not Message.objects.exists()


def test_a_plain_browser_is_led_to_its_message(owner_client: Client, conversation: Conversation) -> None:
    response = owner_client.post(f"/chat/{conversation.pk}/send", {"text": "Why?"})
    message = Message.objects.get()
    assert response.headers["Location"] == f"/chat/{conversation.pk}/#turn-{message.pk}"
    response = owner_client.get(f"/chat/messages/{message.pk}/")
    assert response.headers["Location"] == f"/chat/{conversation.pk}/#turn-{message.pk}"


def test_polls_are_rarer_the_longer_it_takes_and_stop(
    owner_client: Client, conversation: Conversation, settings: Any
) -> None:
    settings.LLM_BASE_URL = ENDPOINT
    with time_machine.travel(NOW, tick=False) as clock:
        message = factories.make_message(conversation)
        assert 'hx-trigger="every 1000ms"' in turn_of(owner_client, message)[1]
        clock.shift(timedelta(minutes=1))
        status, html = turn_of(owner_client, message)
        assert (status, 'hx-trigger="every 3000ms"' in html, ">sending<" in html) == (200, True, True)
        claimed = claim_message(message.pk)
        assert claimed is not None
        postpone(claimed, "the model endpoint cannot be reached", 90)
        status, html = turn_of(owner_client, message)
        assert (status, 'hx-trigger="every 5000ms"' in html, ">queued<" in html) == (200, True, True)
        assert "The model endpoint cannot be reached." in html
        assert "Next try in 90 s, at 12:02:30" in html
        owner_client.post(f"/chat/messages/{message.pk}/cancel", headers=HTMX)
        status, html = turn_of(owner_client, message)
        assert (status, "hx-trigger" in html, ">cancelled<" in html) == (286, False, True)
        response = owner_client.post(f"/chat/messages/{message.pk}/retry", headers=HTMX)
        assert response.status_code == 200
    message.refresh_from_db()
    assert message.state == MessageState.QUEUED


def test_an_answer_with_its_proof(owner_client: Client, conversation: Conversation, settings: Any) -> None:
    answer = factories.make_answer(conversation, settings, text="An <old> lock.")
    html = page_of(owner_client, conversation)
    assert "An &lt;old&gt; lock." in html
    assert f'href="/assemblies/{answer.assembly_id}/"' in html
    assert 'class="allocation"' in html
    assert "7 tokens in, 3 out" in html
    assert f'id="answer-{answer.pk}"' in html
    assert f'data-copy="#answer-{answer.pk}"' in html
    assert f"/chat/answers/{answer.pk}/vote" in html
    status, _ = turn_of(owner_client, answer.reply_to)
    assert status == 286


def test_thumbs_only_on_what_arrived(owner_client: Client, conversation: Conversation, settings: Any) -> None:
    settings.LLM_BASE_URL = ENDPOINT
    message = factories.make_message(conversation)
    assert "/vote" not in page_of(owner_client, conversation)
    response = owner_client.post(f"/chat/answers/{message.pk}/vote", {"rating": "up"})
    assert response.status_code == 404


def test_an_answered_message_is_not_cancelled(
    owner_client: Client, conversation: Conversation, settings: Any
) -> None:
    answer = factories.make_answer(conversation, settings)
    response = owner_client.post(f"/chat/messages/{answer.reply_to_id}/cancel", follow=True)
    assert "Not cancelled" in response.content.decode()
    turn = owner_client.post(f"/chat/messages/{answer.reply_to_id}/cancel", headers=HTMX).content.decode()
    assert "Not cancelled" in turn.partition('hx-swap-oob="beforeend:#toasts"')[2]
    assert "Not cancelled" not in page_of(owner_client, conversation)


def test_the_prompt_of_a_message(owner_client: Client, conversation: Conversation, settings: Any) -> None:
    answer = factories.make_answer(conversation, settings)
    html = html_of(owner_client, f"/chat/messages/{answer.reply_to_id}/prompt/")
    assert "[system]" in html
    assert "[user]\nBEGIN RECORDS" in html
    assert "Why is the queue stuck?" in html
    assert answer.reply_to.idempotency_key in html


def test_earlier_messages_are_a_page_away(owner_client: Client, conversation: Conversation) -> None:
    messages = [factories.make_message(conversation, f"Question {n}?") for n in range(TURNS_SHOWN + 2)]
    html = page_of(owner_client, conversation)
    assert "Question 1?" not in html
    first = messages[2].pk
    assert f'href="?before={first}"' in html
    html = page_of(owner_client, conversation, f"?before={first}")
    assert "Question 0?" in html
    assert "Latest messages" in html
    assert page_of(owner_client, conversation, "?before=x")


def test_a_reader_sees_no_form(teammate_client: Client, conversation: Conversation, settings: Any) -> None:
    factories.make_answer(conversation, settings)
    html = page_of(teammate_client, conversation)
    assert "Your role is read-only." in html
    assert "disabled" in html


def test_a_reader_learns_who_can_ask(
    teammate_client: Client, owner_client: Client, conversation: Conversation
) -> None:
    assert "you need the reviewer role" in teammate_client.get("/chat/").content.decode()
    assert "you need the reviewer role" not in owner_client.get("/chat/").content.decode()


def test_the_queries_do_not_grow_with_the_messages(
    owner_client: Client, conversation: Conversation, settings: Any
) -> None:
    counts = count_at_2_and_20(
        lambda: page_of(owner_client, conversation), lambda: factories.make_answer(conversation, settings)
    )
    # the frame's four; the conversation, its messages, their votes
    assert counts == [7, 7]


def test_the_queries_of_the_list_do_not_grow(owner_client: Client, space: Space) -> None:
    def ask() -> None:
        factories.make_message(factories.make_conversation(space))

    # the frame's four; spaces of the form, conversations, their waiting messages
    assert count_at_2_and_20(lambda: html_of(owner_client, "/chat/"), ask) == [7, 7]


# Votes


def test_a_vote_is_chosen_changed_and_taken_back(
    owner_client: Client, conversation: Conversation, settings: Any
) -> None:
    answer = factories.make_answer(conversation, settings)
    url = f"/chat/answers/{answer.pk}/vote"

    def click(**data: str) -> str:
        response = owner_client.post(url, data, headers=HTMX)
        assert response.status_code == 200
        return response.content.decode()

    html = click(rating="up")
    assert html.count('aria-pressed="true"') == 1
    assert 'name="rating" value="none"' in html
    assert Vote.objects.get().rating == "up"
    html = click(rating="down", reason="outdated", comment="From\r\nlast year")
    vote = Vote.objects.get()
    assert (vote.rating, vote.reason, vote.comment, vote.rater) == (
        "down", "outdated", "From\nlast year", "user:olga"
    )  # fmt: skip
    assert "outdated" in page_of(owner_client, conversation)
    html = click(rating="none")
    assert 'aria-pressed="true"' not in html
    assert 'role="alert"' not in html
    assert not Vote.objects.exists()
    assert "Select a valid choice" in click(rating="sideways")
    assert (
        owner_client.post(url, {"rating": "up"}).headers["Location"].endswith(f"#turn-{answer.reply_to_id}")
    )


def test_others_votes_are_counted_and_not_mine(
    owner_client: Client, editor_client: Client, conversation: Conversation, settings: Any
) -> None:
    answer = factories.make_answer(conversation, settings)
    editor_client.post(f"/chat/answers/{answer.pk}/vote", {"rating": "down"})
    html = page_of(owner_client, conversation)
    assert '<span class="count">1</span>' in html
    assert 'aria-pressed="true"' not in html


def test_the_inspector_shows_and_takes_feedback(
    owner_client: Client, conversation: Conversation, settings: Any
) -> None:
    answer = factories.make_answer(conversation, settings)
    url = f"/assemblies/{answer.assembly_id}/"
    owner_client.post(f"/chat/answers/{answer.pk}/vote", {"rating": "down", "comment": "Too <old>"})
    html = html_of(owner_client, url)
    assert "Too &lt;old&gt;" in html
    assert f"/chat/{conversation.pk}/#turn-{answer.reply_to_id}" in html
    response = owner_client.post(f"{url}vote", {"rating": "up", "comment": "Still true"}, headers=HTMX)
    html = response.content.decode()
    assert html.count('aria-pressed="true"') == 1
    assert "Still true" in html.partition('class="said"')[2]
    assert Vote.objects.get().rating == "up"
    response = owner_client.post(f"{url}vote", {"rating": "none"}, headers=HTMX)
    assert 'role="alert"' not in response.content.decode()
    assert owner_client.post(f"{url}vote", {"rating": "none"}).headers["Location"] == url
    assert not Vote.objects.exists()
