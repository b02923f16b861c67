"""The part of the HTTP API that is about what was learned."""

from memory.api import search

ROUTERS = (search.router,)

__all__ = ["ROUTERS"]
