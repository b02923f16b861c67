"""The admin of memories, votes, reviews, question sets and backtests."""

from memory.admin import backtests, feedback, memories, questions, reviews, rules

__all__ = ["backtests", "feedback", "memories", "questions", "reviews", "rules"]
