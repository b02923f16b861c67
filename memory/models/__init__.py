"""The tables of what was learned, by concept."""

from memory.models.feedback import ExternalMessage, Rating, Vote
from memory.models.memories import Memory, MemoryEmbedding, TrustLevel
from memory.models.policies import HalfLife, MemoryPolicy
from memory.models.reviews import ItemState, Origin, ReviewItem, ReviewRules, ReviewSlot, Verdict
from memory.models.uses import StrategyUse, TrustChange

__all__ = [
    "ExternalMessage",
    "HalfLife",
    "ItemState",
    "Memory",
    "MemoryEmbedding",
    "MemoryPolicy",
    "Origin",
    "Rating",
    "ReviewItem",
    "ReviewRules",
    "ReviewSlot",
    "StrategyUse",
    "TrustChange",
    "TrustLevel",
    "Verdict",
    "Vote",
]
