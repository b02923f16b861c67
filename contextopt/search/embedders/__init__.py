"""Embedders turn texts into vectors. They share one protocol, and each is loaded on first use."""

from contextopt.search.embedders.current import (
    configured_embedder,
    get_embedder,
    is_remote,
    least_match,
    usual_similarity,
)
from contextopt.search.embedders.values import Embedder, EmbeddingUnavailable, Vectors

__all__ = [
    "Embedder",
    "EmbeddingUnavailable",
    "Vectors",
    "configured_embedder",
    "get_embedder",
    "is_remote",
    "least_match",
    "usual_similarity",
]
