"""The part of the HTTP API that is about what was learned, and the search over all of it."""

from memory.api import completions, feedback, memories, reviews, search, strategies

ROUTERS = (
    search.router,
    memories.router,
    strategies.router,
    completions.router,
    feedback.router,
    reviews.router,
)

__all__ = ["ROUTERS"]
