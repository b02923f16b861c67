"""Instructions for agents of pydantic-ai: `Agent(model, instructions=context_instructions("support"))`."""

from collections.abc import Awaitable, Callable
from typing import Any, Unpack

from pydantic_ai import RunContext

from contextopt_client.client import AsyncContextopt
from contextopt_client.models import AssemblyOptions
from contextopt_client.prompts import HURRIED, PromptContext


def context_instructions(
    space: str, *, client: AsyncContextopt | None = None, **options: Unpack[AssemblyOptions]
) -> Callable[[RunContext[Any]], Awaitable[str]]:
    """Return instructions that hold the context for the run's prompt.

    Without `client`, one is created from CONTEXTOPT_URL and CONTEXTOPT_KEY.
    """
    asked = client or AsyncContextopt(**HURRIED)
    context = PromptContext(space, **options)

    async def give_context(run: RunContext[Any]) -> str:
        query = _prompt_of(run)
        return await context.ask_async(asked, query, (run.run_id, query)) if query else ""

    return give_context


def _prompt_of(run: RunContext[Any]) -> str:
    """Return the text of the prompt, without images and other parts."""
    if isinstance(run.prompt, str):
        return run.prompt
    return "\n".join(part for part in run.prompt or () if isinstance(part, str))
