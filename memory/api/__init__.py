"""The part of the HTTP API that is about what was learned."""

from memory.api import feedback, search

ROUTERS = (search.router, feedback.router)

__all__ = ["ROUTERS"]
