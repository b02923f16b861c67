"""The admin of what was learned, by concept."""

from memory.admin import memories, policies

__all__ = ["memories", "policies"]
