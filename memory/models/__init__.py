"""The tables, by concept."""

from memory.models.feedback import ExternalMessage, Rating, Vote

__all__ = ["ExternalMessage", "Rating", "Vote"]
