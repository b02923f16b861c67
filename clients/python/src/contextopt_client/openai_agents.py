"""A filter for the OpenAI Agents SDK: `RunConfig(call_model_input_filter=context_filter("support"))`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Unpack

from agents import TResponseInputItem
from agents.run_config import CallModelData, ModelInputData

from contextopt_client.client import AsyncContextopt
from contextopt_client.models import AssemblyOptions
from contextopt_client.prompts import HURRIED, PromptContext, join_texts


def context_filter(
    space: str, *, client: AsyncContextopt | None = None, **options: Unpack[AssemblyOptions]
) -> Callable[[CallModelData[Any]], Awaitable[ModelInputData]]:
    """Return a filter that adds the context for the last user message to the instructions.

    Without `client`, one is created from CONTEXTOPT_URL and CONTEXTOPT_KEY.
    """
    asked = client or AsyncContextopt(**HURRIED)
    context = PromptContext(space, **options)

    async def add_context(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        texts = _user_texts(given.input)
        text = ""
        if texts:
            is_first = given.input[-1].get("role") == "user"
            text = await context.ask_async(asked, texts[-1], tuple(texts), is_first=is_first)
        return ModelInputData(input=given.input, instructions=join_texts(given.instructions, text) or None)

    return add_context


def _user_texts(items: Sequence[TResponseInputItem]) -> list[str]:
    """Return the texts of the user's messages, in order."""
    found = (_text_of(item.get("content")) for item in items if item.get("role") == "user")
    return [text for text in found if text]


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)
