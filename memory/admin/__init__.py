"""The admin of what was learned, by concept."""

from memory.admin import feedback, memories, policies, reviews

__all__ = ["feedback", "memories", "policies", "reviews"]
