"""The tables of what was learned, by concept."""

from memory.models.feedback import ExternalMessage, Rating, Vote
from memory.models.memories import Memory, MemoryEmbedding, TrustLevel
from memory.models.policies import HalfLife, MemoryPolicy
from memory.models.uses import StrategyUse, TrustChange

__all__ = [
    "ExternalMessage",
    "HalfLife",
    "Memory",
    "MemoryEmbedding",
    "MemoryPolicy",
    "Rating",
    "StrategyUse",
    "TrustChange",
    "TrustLevel",
    "Vote",
]
