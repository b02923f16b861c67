"""The admin of memories, votes and reviews."""

from memory.admin import feedback, memories, policies, reviews

__all__ = ["feedback", "memories", "policies", "reviews"]
