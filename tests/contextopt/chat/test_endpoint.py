"""The client of the model endpoint, against a real local server."""

from typing import Any

import pytest

from contextopt.chat.endpoint import (
    ChatMessage,
    Completion,
    CompletionRefused,
    CompletionUnavailable,
    complete,
    is_configured,
)
from tests.model_server import DROPPED, FAILING, ModelServer, Reply, busy, completion, refused

PROMPT = [ChatMessage("system", "Context."), ChatMessage("user", "Hello?")]


def ask(timeout_seconds: float = 5) -> Completion:
    return complete(PROMPT, timeout_seconds=timeout_seconds, idempotency_key="key-1")


def test_answers(llm: ModelServer) -> None:
    answer = ask()
    assert (answer.text, answer.model, answer.prompt_tokens) == ("An answer.", "small", 7)
    request = llm.seen[0]
    assert request.path == "/v1/chat/completions"
    assert request.headers["idempotency-key"] == "key-1"
    assert request.headers["authorization"] == "Bearer sk-test"
    assert [message["role"] for message in request.body["messages"]] == ["system", "user"]


def test_asks_once_and_leaves_repeating_to_the_caller(llm: ModelServer) -> None:
    llm.script.append(FAILING)
    with pytest.raises(CompletionUnavailable, match="500"):
        ask()
    assert len(llm.seen) == 1


def test_says_how_long_a_busy_endpoint_wants_to_wait(llm: ModelServer) -> None:
    llm.script.append(busy("7"))
    with pytest.raises(CompletionUnavailable) as caught:
        ask()
    assert caught.value.retry_after_seconds == 7


@pytest.mark.parametrize("header", ["soon", "nan", "inf", ""])
def test_a_nonsense_wait_is_none(llm: ModelServer, header: str) -> None:
    llm.script.append(refused(503, Retry_After=header))
    with pytest.raises(CompletionUnavailable) as caught:
        ask()
    assert caught.value.retry_after_seconds is None


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_told_apart(llm: ModelServer, status: int) -> None:
    llm.script.append(refused(status))
    with pytest.raises(CompletionRefused, match=str(status)):
        ask()


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=b"<html>proxy</html>"),
        Reply(body=b"{}"),
        Reply(body=b"[]"),
        Reply(body=b'{"choices": []}'),
        Reply(body=b'{"choices": [{"message": null}]}'),
        Reply(body=b'{"choices": "none"}'),
        completion(None),
        completion("  "),
        DROPPED,
    ],
    ids=str,
)
def test_an_answer_that_is_none(llm: ModelServer, reply: Reply) -> None:
    llm.script.append(reply)
    with pytest.raises(CompletionUnavailable):
        ask()


@pytest.mark.parametrize("count", [-1, 2**31, "many", None])
def test_a_count_that_is_none_costs_no_answer(llm: ModelServer, count: Any) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": 7}
    llm.script.append(Reply(body={"choices": [{"message": {"content": "Yes."}}], "usage": usage}))
    answer = ask()
    assert (answer.text, answer.prompt_tokens, answer.completion_tokens) == ("Yes.", None, 7)


def test_an_answer_that_cannot_be_stored_as_it_is(llm: ModelServer) -> None:
    body = rb'{"choices": [{"message": {"content": "So\u0000rry \ud83d"}}], "model": "sm\u0000all"}'
    llm.script.append(Reply(body=body))
    answer = ask()
    assert (answer.text, answer.model) == ("Sorry \ufffd", "small")


def test_a_slow_endpoint(llm: ModelServer) -> None:
    llm.script.append(Reply(delay_seconds=1))
    with pytest.raises(CompletionUnavailable, match=r"did not respond within 0\.2 s"):
        ask(timeout_seconds=0.2)


def test_no_endpoint(settings: Any) -> None:
    settings.LLM_BASE_URL = ""
    assert not is_configured()
    with pytest.raises(CompletionUnavailable, match="LLM_BASE_URL"):
        ask()


def test_an_endpoint_that_is_not_there(settings: Any) -> None:
    settings.LLM_BASE_URL = "http://127.0.0.1:9/v1"
    with pytest.raises(CompletionUnavailable, match="cannot be reached"):
        ask()
