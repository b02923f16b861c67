"""The tables of memory, by concept."""

from memory.backtests.models import Backtest, BacktestRow, BacktestState
from memory.feedback.models import ExternalMessage, Rating, Vote
from memory.memories.models import Memory, MemoryEmbedding, TrustLevel
from memory.memories.rules import HalfLife, MemoryPolicy
from memory.questions.models import (
    EvaluatedQuestion,
    Evaluation,
    EvaluationState,
    ExpectedRecord,
    Question,
    QuestionSet,
    QuestionSource,
)
from memory.review.models import ItemState, Origin, ReviewItem, ReviewRules, ReviewSlot, Verdict
from memory.strategies.models import StrategyUse, TrustChange

__all__ = [
    "Backtest",
    "BacktestRow",
    "BacktestState",
    "EvaluatedQuestion",
    "Evaluation",
    "EvaluationState",
    "ExpectedRecord",
    "ExternalMessage",
    "HalfLife",
    "ItemState",
    "Memory",
    "MemoryEmbedding",
    "MemoryPolicy",
    "Origin",
    "Question",
    "QuestionSet",
    "QuestionSource",
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
