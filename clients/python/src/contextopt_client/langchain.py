"""Middleware for agents of LangChain: `create_agent(model, middleware=[ContextMiddleware("support")])`."""

from collections.abc import Awaitable, Callable
from typing import Any, Unpack

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import HumanMessage, SystemMessage

from contextopt_client.client import AsyncContextopt, Contextopt
from contextopt_client.models import AssemblyOptions
from contextopt_client.prompts import HURRIED, PromptContext

Key = tuple[int, str]


class ContextMiddleware(AgentMiddleware[Any, Any, Any]):
    """Adds the context for the last human message to the system message of each model call.

    Without `client` or `async_client`, clients are created from CONTEXTOPT_URL and CONTEXTOPT_KEY.
    """

    def __init__(
        self,
        space: str,
        *,
        client: Contextopt | None = None,
        async_client: AsyncContextopt | None = None,
        **options: Unpack[AssemblyOptions],
    ) -> None:
        super().__init__()
        self._client, self._async_client = client, async_client
        self._context = PromptContext(space, **options)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        if (found := _question(request)) is None:
            return handler(request)
        self._client = self._client or Contextopt(**HURRIED)
        text = self._context.ask(self._client, found[1], found, is_first=_is_first(request, found))
        return handler(_extended(request, text))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        if (found := _question(request)) is None:
            return await handler(request)
        self._async_client = self._async_client or AsyncContextopt(**HURRIED)
        is_first = _is_first(request, found)
        text = await self._context.ask_async(self._async_client, found[1], found, is_first=is_first)
        return await handler(_extended(request, text))


def _question(request: ModelRequest[Any]) -> Key | None:
    """Return the last human message with its place in the conversation."""
    for place in range(len(request.messages) - 1, -1, -1):
        message = request.messages[place]
        if isinstance(message, HumanMessage) and message.text:
            return place, message.text
    return None


def _is_first(request: ModelRequest[Any], found: Key) -> bool:
    """Tell whether this is the turn's first step: nothing follows the human message yet."""
    return found[0] == len(request.messages) - 1


def _extended(request: ModelRequest[Any], text: str) -> ModelRequest[Any]:
    if not text:
        return request
    own: list[Any] = request.system_message.content_blocks if request.system_message else []
    return request.override(system_message=SystemMessage(content=[*own, {"type": "text", "text": text}]))
