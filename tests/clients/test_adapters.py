"""Each adapter in its framework, with the framework's own test model, against the running product."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import RunConfig, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.test import TestModel

from contextopt.assemblies.models import Assembly
from contextopt.spaces.models import Space
from tests.concurrency import in_own_loop

type Load = Callable[..., Any]
QUESTION = "Why is the queue stuck?"
FOUND = "Workers of the old release kept their lock."
AWAY = {"url": "http://127.0.0.1:9", "key": "k", "retries": 0}


class ListeningModel(FakeMessagesListChatModel):
    """The framework's fake model, which also keeps the messages that it was sent."""

    heard: list[list[BaseMessage]] = []  # noqa: RUF012  (pydantic copies it)

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *values: Any, **options: Any) -> Any:
        self.heard.append(messages)
        return super()._generate(messages, *values, **options)


def look_up() -> str:
    """Look something up."""
    return "found"


@pytest.mark.parametrize("is_async", [False, True])
def test_langchain(is_async: bool, load: Load, place: dict[str, str], space: Space) -> None:
    call = AIMessage("", tool_calls=[{"name": "look_up", "args": {}, "id": "1"}])
    model = ListeningModel(responses=[call, AIMessage("ok")])

    def make_agent(**clients: Any) -> Any:
        middleware = load(".langchain").ContextMiddleware(space.slug, context_tokens=500, **clients)
        return create_agent(model, tools=[look_up], system_prompt="Be brief.", middleware=[middleware])

    async def ask() -> Any:
        async with load().AsyncContextopt(**place) as client:
            return await make_agent(async_client=client).ainvoke({"messages": [("user", QUESTION)]})

    if is_async:
        answer = in_own_loop(ask())
    else:
        with load().Contextopt(**place) as client:
            answer = make_agent(client=client).invoke({"messages": [("user", QUESTION)]})
    assert answer["messages"][-1].text == "ok"
    assert len(model.heard) == 2
    for messages in model.heard:
        assert "Be brief." in messages[0].text and FOUND in messages[0].text
    # One context for both steps, and none in the conversation itself.
    assert Assembly.objects.get().tokens_available == 500
    assert not [message for message in answer["messages"] if FOUND in message.text]


def test_openai_agents(load: Load, place: dict[str, str], space: Space) -> None:
    model = ScriptedModel([[function_call("look_up", {}, call_id="1")], [assistant_message("ok")]])
    agent = OpenAIAgent(name="support", instructions="Be brief.", model=model, tools=[function_tool(look_up)])

    async def ask() -> Any:
        async with load().AsyncContextopt(**place) as client:
            add_context = load(".openai_agents").context_filter(space.slug, client=client)
            config = RunConfig(call_model_input_filter=add_context, tracing_disabled=True)
            return await Runner.run(agent, QUESTION, run_config=config)

    assert in_own_loop(ask()).final_output == "ok"
    assert len(model.calls) == 2
    for call in model.calls:
        assert call.system_instructions is not None
        assert call.system_instructions.startswith("Be brief.") and FOUND in call.system_instructions
    assert Assembly.objects.count() == 1


def test_pydantic_ai(load: Load, place: dict[str, str], space: Space) -> None:
    async def ask() -> Any:
        async with load().AsyncContextopt(**place) as client:
            add_context = load(".pydantic_ai").context_instructions(space.slug, client=client)
            agent = PydanticAgent(TestModel(), instructions=["Be brief.", add_context], tools=[look_up])
            return await agent.run(QUESTION)

    sent = [each.instructions for each in in_own_loop(ask()).all_messages() if each.kind == "request"]
    assert len(sent) == 2
    for instructions in sent:
        assert instructions.startswith("Be brief.") and FOUND in instructions
    assert Assembly.objects.count() == 1


@pytest.mark.parametrize("framework", ["langchain", "openai_agents"])
def test_a_conversation_that_begins_alike_gets_a_context_of_its_own(
    framework: str, load: Load, place: dict[str, str], space: Space
) -> None:
    async def ask_twice() -> None:
        async with load().AsyncContextopt(**place) as client:
            if framework == "langchain":
                middleware = load(".langchain").ContextMiddleware(space.slug, async_client=client)
                model = ListeningModel(responses=[AIMessage("ok")])
                agent = create_agent(model, middleware=[middleware])
                for _ in range(2):
                    await agent.ainvoke({"messages": [("user", QUESTION)]})
                return
            add_context = load(".openai_agents").context_filter(space.slug, client=client)
            config = RunConfig(call_model_input_filter=add_context, tracing_disabled=True)
            for _ in range(2):
                scripted = ScriptedModel([[assistant_message("ok")]])
                await Runner.run(OpenAIAgent(name="a", model=scripted), QUESTION, run_config=config)

    in_own_loop(ask_twice())
    assert Assembly.objects.count() == 2


def test_without_contextopt_all_steps_go_on(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    call = AIMessage("", tool_calls=[{"name": "look_up", "args": {}, "id": "1"}])
    model = ListeningModel(responses=[call, AIMessage("ok")])
    with load().Contextopt(**AWAY) as client:
        middleware = load(".langchain").ContextMiddleware("support", client=client)
        agent = create_agent(model, tools=[look_up], system_prompt="Be brief.", middleware=[middleware])
        assert agent.invoke({"messages": [("user", QUESTION)]})["messages"][-1].text == "ok"
    assert [messages[0].text for messages in model.heard] == ["Be brief."] * 2
    assert caplog.text.count("goes on without a context") == 1


def test_an_answer_from_another_server_is_an_error(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    context = load(".prompts").PromptContext("support")
    answers = SimpleNamespace(assemble=lambda *_, **__: {"status": "maintenance"})
    assert context.ask(answers, QUESTION, "turn") == ""
    assert "does not come from Contextopt" in caplog.text
