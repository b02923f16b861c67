"""The providers' own clients work through the gateway by another base URL alone."""

from collections.abc import Callable

import anthropic
import httpx2
import openai
import pytest

from tests.contextopt.gateway.conftest import Caller
from tests.gateway_upstream import Upstream

ASKED = "Why is the queue stuck?"


@pytest.fixture(params=["audit", "insert"])
def mode(request: pytest.FixtureRequest, inserting: Callable[..., Caller]) -> str:
    if request.param == "insert":
        inserting()
    return str(request.param)


@pytest.fixture
def openai_client(caller: Caller) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{caller.address}/v1", api_key="sk-provider", max_retries=0,
        default_headers={"X-Contextopt-Key": caller.secret},
    )  # fmt: skip


@pytest.fixture
def anthropic_client(caller: Caller) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        base_url=caller.address, api_key="sk-ant", max_retries=0,
        default_headers={"X-Contextopt-Key": caller.secret},
    )  # fmt: skip


def test_chat(openai_client: openai.OpenAI, caller: Caller, upstream: Upstream, mode: str) -> None:
    def ask() -> None:
        answer = openai_client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": ASKED}]
        )
        assert answer.choices[0].message.content == "Restart the worker. Då virker det ✓"
        chunks = openai_client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": ASKED}], stream=True
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == "Restart the worker. Då virker det ✓"

    with openai_client:
        assert {row.is_inserted for row in caller.in_time(ask, prompts=2)} == {mode == "insert"}
        assert [model.id for model in openai_client.models.list()] == ["m"]
    assert upstream.got[0].headers["authorization"] == "Bearer sk-provider"


def test_responses(openai_client: openai.OpenAI, caller: Caller, mode: str) -> None:
    def ask() -> None:
        assert openai_client.responses.create(model="m", input=ASKED).output_text == "Restart the worker."
        events = list(openai_client.responses.create(model="m", input=ASKED, stream=True))
        assert events[-1].type == "response.completed"

    with openai_client:
        assert {row.is_inserted for row in caller.in_time(ask, prompts=2)} == {mode == "insert"}


def test_messages(
    anthropic_client: anthropic.Anthropic, caller: Caller, upstream: Upstream, mode: str
) -> None:
    asked: list[anthropic.types.MessageParam] = [{"role": "user", "content": ASKED}]

    def ask() -> None:
        answer = anthropic_client.messages.create(model="claude-x", max_tokens=50, messages=asked)
        assert answer.content[0].text == "Restart the worker."
        with anthropic_client.messages.stream(model="claude-x", max_tokens=50, messages=asked) as stream:
            assert stream.get_final_text() == "Restarttheworker."

    with anthropic_client:
        assert {row.is_inserted for row in caller.in_time(ask, prompts=2)} == {mode == "insert"}
    assert upstream.got[0].headers["authorization"] == "Bearer sk-ant"


def test_errors_are_the_clients_own(caller: Caller, upstream: Upstream) -> None:
    with (
        openai.OpenAI(base_url=f"{caller.address}/v1", api_key="x", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError, match="X-Contextopt-Key"),
    ):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": ASKED}])
    with (
        anthropic.Anthropic(base_url=caller.address, api_key="x", max_retries=0) as other,
        pytest.raises(anthropic.AuthenticationError, match="X-Contextopt-Key"),
    ):
        other.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": ASKED}])


def test_clients_do_not_repeat_what_cannot_help(caller: Caller, upstream: Upstream) -> None:
    """By their own rules they repeat a request whose answer has a status from 500 on."""
    caller.chat("Hi")
    looping = {"X-Contextopt-Key": caller.secret, "Via": upstream.got[-1].headers["via"]}
    asked: list[httpx2.Request] = []
    with (
        httpx2.Client(event_hooks={"request": [asked.append]}) as connections,
        anthropic.Anthropic(
            base_url=caller.address, api_key="x", default_headers=looping, http_client=connections
        ) as client,
        pytest.raises(anthropic.InternalServerError, match="passed this gateway"),
    ):
        client.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": ASKED}])
    assert len(asked) == 1
