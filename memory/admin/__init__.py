"""The admin of what was learned."""

from memory.admin import feedback

__all__ = ["feedback"]
