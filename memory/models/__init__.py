"""The tables of what was learned, by concept."""

from memory.models.memories import Memory, MemoryEmbedding, TrustLevel
from memory.models.policies import HalfLife, MemoryPolicy
from memory.models.uses import StrategyUse, TrustChange

__all__ = [
    "HalfLife",
    "Memory",
    "MemoryEmbedding",
    "MemoryPolicy",
    "StrategyUse",
    "TrustChange",
    "TrustLevel",
]
