"""The admin of memories, votes, reviews and question sets."""

from memory.admin import feedback, memories, policies, questions, reviews

__all__ = ["feedback", "memories", "policies", "questions", "reviews"]
