"""The tables of memory, by concept."""

from memory.feedback.models import ExternalMessage, Rating, Vote
from memory.memories.models import Memory, MemoryEmbedding, TrustLevel
from memory.memories.policies import HalfLife, MemoryPolicy
from memory.review.models import ItemState, Origin, ReviewItem, ReviewRules, ReviewSlot, Verdict
from memory.strategies.models import StrategyUse, TrustChange

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
