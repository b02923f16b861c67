"""Endpoints for memories, strategies, feedback, reviews, question sets, backtests and search."""

from memory.api import (
    backtests,
    completions,
    feedback,
    memories,
    questions,
    reviews,
    search,
    steps,
    strategies,
)

ROUTERS = (
    search.router,
    memories.router,
    strategies.router,
    completions.router,
    steps.router,
    feedback.router,
    reviews.router,
    questions.router,
    backtests.router,
)

__all__ = ["ROUTERS"]
