"""Endpoints for memories, strategies, feedback, reviews, question sets and search."""

from memory.api import completions, feedback, memories, questions, reviews, search, steps, strategies

ROUTERS = (
    search.router,
    memories.router,
    strategies.router,
    completions.router,
    steps.router,
    feedback.router,
    reviews.router,
    questions.router,
)

__all__ = ["ROUTERS"]
