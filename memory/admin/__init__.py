"""The admin of memories, votes, reviews, question sets and backtests."""

from memory.admin import backtests, feedback, memories, policies, questions, reviews

__all__ = ["backtests", "feedback", "memories", "policies", "questions", "reviews"]
