"""Endpoints for memories, strategies, feedback, reviews and search."""

from memory.api import completions, feedback, memories, reviews, search, steps, strategies

ROUTERS = (
    search.router,
    memories.router,
    strategies.router,
    completions.router,
    steps.router,
    feedback.router,
    reviews.router,
)

__all__ = ["ROUTERS"]
