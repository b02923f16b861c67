"""The part of the HTTP API that is about what was learned."""

from memory.api import completions, memories, strategies

ROUTERS = (memories.router, strategies.router, completions.router)

__all__ = ["ROUTERS"]
