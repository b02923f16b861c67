"""Answers that arrive piece by piece, from a real local server."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from django.utils import timezone

from contextopt.chat import endpoint, outbox
from contextopt.chat.endpoint import ChatMessage, Completion, CompletionRefused, CompletionUnavailable
from contextopt.chat.inputs import MessageIn
from contextopt.chat.models import Conversation, Message, MessageState
from contextopt.spaces.models import Space
from tests import factories
from tests.model_server import FAILING, ModelServer, Reply, busy, completion, refused, streamed

TEXT = "Restart the workers – one at a time. 👍 Ærlig talt."


@pytest.fixture
def llm(settings: Any) -> Iterator[ModelServer]:
    with ModelServer(content=TEXT) as server:
        settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.LLM_MODEL = server.base_url, "sk-test", "small"
        yield server


def ask(seen: list[str], timeout_seconds: float = 5) -> Completion:
    return endpoint.complete(
        [ChatMessage("user", "Hello?")],
        timeout_seconds=timeout_seconds,
        idempotency_key="key-1",
        on_text=seen.append,
    )


def test_text_grows_until_it_is_whole(llm: ModelServer) -> None:
    seen: list[str] = []
    answer = ask(seen)
    assert (answer.text, answer.model) == (TEXT, "small")
    assert (answer.prompt_tokens, answer.completion_tokens) == (7, 3)
    assert len(seen) > 3
    assert all(later.startswith(earlier) for earlier, later in pairwise(seen))
    assert llm.seen[0].body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("cut", [1, 3, 7, 64, 100_000])
def test_pieces_may_break_anywhere(llm: ModelServer, cut: int) -> None:
    llm.script.append(streamed(TEXT, cut=cut))
    assert ask([]).text == TEXT


def test_an_endpoint_that_does_not_stream_answers_at_once(llm: ModelServer) -> None:
    llm.script.append(completion("All of it."))
    seen: list[str] = []
    assert ask(seen).text == "All of it."
    assert seen == []


def test_an_answer_that_breaks_off_is_none(llm: ModelServer) -> None:
    llm.script.append(streamed(TEXT, is_done=False))
    with pytest.raises(CompletionUnavailable):
        ask([])


@pytest.mark.parametrize(
    "pieces",
    [
        [b"data: {}\n\n", b"data: [DONE]\n\n"],
        [b"data: not json\n\n"],
        [b'data: {"choices": "none"}\n\n'],
        [b'data: {"choices": [{"delta": {"content": 7}}]}\n\n'],
        [b'data: {"error": {"message": "secret prompt"}}\n\n'],
        [b"<html>not what you asked for</html>"],
    ],
)
def test_a_stream_of_something_else_is_no_answer(llm: ModelServer, pieces: list[bytes]) -> None:
    llm.script.append(Reply(pieces=pieces))
    with pytest.raises(CompletionUnavailable) as caught:
        ask([])
    assert "secret" not in str(caught.value)


def test_a_slow_stream_ends_at_its_time(llm: ModelServer) -> None:
    llm.script.append(streamed(TEXT, pause_seconds=0.2))
    with pytest.raises(CompletionUnavailable, match=r"did not respond within 0\.5 s"):
        ask([], timeout_seconds=0.5)


def test_a_stream_that_hangs_ends_at_its_time(llm: ModelServer) -> None:
    llm.script.append(streamed(TEXT, pause_seconds=30))
    with pytest.raises(CompletionUnavailable, match=r"did not respond within 0\.5 s"):
        ask([], timeout_seconds=0.5)


@pytest.mark.parametrize(
    ("piece", "kind"), [(b": still here\n\n", "text/event-stream"), (b" ", "application/json")]
)
def test_bytes_without_an_answer_do_not_prolong_it(llm: ModelServer, piece: bytes, kind: str) -> None:
    llm.script.append(Reply(pieces=[piece] * 20, pause_seconds=0.1, headers={"Content-Type": kind}))
    with pytest.raises(CompletionUnavailable, match=r"did not respond within 0\.5 s"):
        ask([], timeout_seconds=0.5)


def test_refusals_and_failures_are_those_of_whole_answers(llm: ModelServer) -> None:
    llm.script += [FAILING, busy("7"), refused(400)]
    for error in (CompletionUnavailable, CompletionUnavailable, CompletionRefused):
        with pytest.raises(error):
            ask([])


@pytest.fixture
def claimed(space: Space, llm: ModelServer) -> Message:
    factories.make_record(space, date=timezone.now(), title="Queue stuck")
    conversation: Conversation = factories.make_conversation(space)
    outbox.send_message(conversation=conversation, data=MessageIn(text="Why?"), actor="user:olga")
    message = outbox.claim_message()
    assert message is not None
    return message


def reload(message: Message) -> Message:
    return Message.objects.asked().get(pk=message.pk)


def test_what_has_arrived_is_stored_meanwhile_and_gone_after(claimed: Message) -> None:
    partial = outbox.PartialText(claimed)
    partial("Restart\x00")
    assert reload(claimed).partial_text == "Restart"
    # Not more than a few times a second.
    partial("Restart the")
    assert reload(claimed).partial_text == "Restart"
    outbox.deliver(claimed)
    done = reload(claimed)
    assert (done.state, done.partial_text, done.answer.text) == (MessageState.ANSWERED, "", TEXT)


def test_a_broken_stream_keeps_no_part_and_is_tried_again(claimed: Message, llm: ModelServer) -> None:
    llm.script.append(streamed(TEXT, is_done=False))
    outbox.deliver(claimed)
    waiting = reload(claimed)
    assert (waiting.state, waiting.partial_text) == (MessageState.QUEUED, "")
    assert not hasattr(waiting, "answer")
    Message.objects.filter(pk=claimed.pk).update(next_try_at=timezone.now())
    again = outbox.claim_message()
    assert again is not None
    outbox.deliver(again)
    assert reload(claimed).answer.text == TEXT
    assert len({seen.headers["idempotency-key"] for seen in llm.seen}) == 1


def test_a_cancelled_message_keeps_no_part(claimed: Message) -> None:
    partial = outbox.PartialText(claimed)
    partial("Restart")
    outbox.cancel_message(message=claimed)
    assert reload(claimed).partial_text == ""
    # A sender that goes on writes nothing.
    outbox.PartialText(claimed)("Restart the workers")
    assert reload(claimed).partial_text == ""
